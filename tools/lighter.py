"""Make the pages of the built book light: MathJax, the theme and pictures without what no page shows."""

import json
import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from urllib.parse import unquote, urlsplit

from bs4 import BeautifulSoup
from fontTools import subset
from fontTools.ttLib import TTFont

MATHJAX = "mathjax.js"
COMPONENTS = ("core", "input/tex", "output/svg", "output/svg/fonts/tex", "a11y/assistive-mml")
# Letters of MathJax that the book has no use for: whole alphabets, and ranges of Unicode's mathematical letters
# (bold italic, script, Gothic, all without serifs but the upright ones, of a typewriter, all Greek but the italic).
# One that is used all the same is found by tools/browse.py.
ALPHABETS = ("boldItalic", "bold", "frakturBold", "fraktur", "monospace", "sansSerifBoldItalic", "sansSerifBold")
ALPHABETS += ("sansSerifItalic", "sansSerif", "texCalligraphicBold", "texMathit", "texOldstyleBold", "texOldstyle")
LETTERS = ((0x1D468, 0x1D538), (0x1D56C, 0x1D5A0), (0x1D5D4, 0x1D6A4), (0x1D6A8, 0x1D6E2), (0x1D71C, 0x1D7CE))
# Letters that commands of other names draw, and signs: dots, minus, star, root, bars, primes, a part of tall braces.
SIGNS = {0x2016, 0x2026, 0x2032, 0x2033, 0x2034, 0x2057, 0x2212, 0x2217, 0x221A, 0x2223, 0x2225, 0x22EF, 0x23AA}
# An icon of the theme's script: its name, and in the list its other names.
ICON = re.compile(r'"?([\w-]+)"?:\[\d+,\d+,\[([^\]]*)\],"[0-9a-f]+",(?:"[^"]*"|\[[^\]]*\])\],?')
RULE = re.compile(r"([^{}@;]+)\{[^{}]*\}")
COMMAND = re.compile(r'"?([A-Za-z]+)"?:\[?"\\u([0-9A-Fa-f]{4})"')  # of TeX, and the letter that it is
FONT = re.compile(r'url\(([^)]*/fa-[\w-]+)\.woff2\) format\("woff2"\),url\([^)]*\) format\("truetype"\)')
SEARCH = re.compile(r'\s*<script src="[^"]*(?:searchtools|language_data|searchindex)\.js[^>]*></script>')
FRACTION = re.compile(r"(\.\d\d)\d+")


def mathjax(path: Path, commands: set[str] | None = None) -> None:
    """Write the parts of MathJax that pages need as one script; with TeX's commands, no other ones' letters.

    Letters are drawings, since browsers refuse fonts to pages opened as files.
    """
    folder = resources.files("sphinx-mathjax-offline") / "static" / "mathjax"
    parts = {name: (folder / f"{name}.js").read_text("utf-8") for name in ("startup", *COMPONENTS)}
    named = {(name, int(code, 16)) for name, code in COMMAND.findall(parts["input/tex"])}
    unused = (
        {code for _, code in named} - SIGNS - {code for name, code in named if commands is None or name in commands}
    )
    font = parts["output/svg/fonts/tex"]
    font = re.sub(rf"(?<=\.)(?:{'|'.join(ALPHABETS)})=\(0,\w+\.AddPaths\)\([\w.]+,\{{.*?\}}", _without_letters, font)
    parts["output/svg/fonts/tex"] = re.sub(r'(?<=[{,])(\d+):"[^"]*",?', lambda one: _kept(one, unused), font)
    loaded = [*COMPONENTS, "output/svg/fonts/tex.js", "[tex]/ams", "[tex]/newcommand", "[tex]/configmacros"]
    # An unknown command is an error, not a request for a file that is not there.
    settings = {"packages": {"[-]": ["require", "autoload", "noundefined"]}}
    start = f"window.MathJax = Object.assign({{tex: {json.dumps(settings)}}}, window.MathJax);"
    startup, *others = parts.values()
    text = [start, startup, f"MathJax.loader.preLoad(...{json.dumps(['startup', *loaded])});", *others]
    path.write_text("\n;".join(text), encoding="utf-8")


def _kept(letter: re.Match, unused: set[int]) -> str:
    code = int(letter[1])
    return "" if code in unused or any(first <= code < last for first, last in LETTERS) else letter[0]


def _without_letters(alphabet: re.Match) -> str:
    return alphabet[0][: alphabet[0].index("{")] + "{}"


def lighten(html: Path) -> None:
    """Leave out of a built book the icons, the search index of pages and the digits that nobody sees."""
    pages, static = {page: page.read_text("utf-8") for page in html.rglob("*.html")}, html / "_static"
    theme = static / "styles" / "pydata-sphinx-theme.css"
    if (static / MATHJAX).is_file():
        mathjax(static / MATHJAX, {name for text in pages.values() for name in re.findall(r"\\([A-Za-z]+)", text)})
    scripts = [path for path in static.rglob("*.js") if path.name not in (MATHJAX, "fontawesome.js")]
    texts = [*pages.values(), *(path.read_text("utf-8") for path in scripts)]
    words = {word for text in texts for word in re.findall(r"[\w-]+", text)}

    def icon(found: re.Match) -> str:
        return found[0] if {f"fa-{name}" for name in (found[1], *re.findall(r'"([\w-]+)"', found[2]))} & words else ""

    def rule(found: re.Match) -> str:
        selectors = re.sub(r":not\(.*?\)", "", found[1]).split(",")
        return found[0] if any(words.issuperset(re.findall(r"\.(-?[A-Za-z_][\w-]*)", one)) for one in selectors) else ""

    icons = static / "scripts" / "fontawesome.js"
    icons.write_text(ICON.sub(icon, icons.read_text("utf-8")), "utf-8")
    for path in (theme, *static.glob("sphinx-design*.css"), *static.glob("mystnb*.css")):
        path.write_text(RULE.sub(rule, path.read_text("utf-8")), "utf-8")
    shown = {
        ord(one) for path in static.rglob("*.css") for one in re.findall(r"[\uf000-\uf8ff]", path.read_text("utf-8"))
    }
    codes = {
        int(one, 16)
        for path in static.rglob("*.css")
        for one in re.findall(r"\\(f[0-9a-f]{3})", path.read_text("utf-8"))
    }
    for path in (static / "vendor").rglob("fa-*.ttf"):
        font = TTFont(path)
        chosen = subset.Subsetter()
        chosen.populate(unicodes=shown | codes)
        chosen.subset(font)
        font.flavor = "woff"
        font.save(path.with_suffix(".woff"))
    theme.write_text(FONT.sub(r'url(\1.woff) format("woff")', theme.read_text("utf-8")), "utf-8")
    for page, text in pages.items():
        if page.name != "search.html":  # each of the others leads there
            page.write_text(SEARCH.sub("", text), "utf-8")
    for picture in (html / "_images").glob("*.svg"):
        text = picture.read_text("utf-8")
        picture.write_text(re.sub(r'(?<= d=)"[^"]*"', lambda path: _shorter(path[0]), text), "utf-8")


def _shorter(path: str) -> str:
    return re.sub(r"\s*([A-Za-z])\s*", r"\1", FRACTION.sub(r"\1", path))


def weight(page: Path, text: BeautifulSoup) -> int:
    """Return the bytes of a page with its scripts, styles, pictures and the icons' font."""
    links = text.select("script[src], img[src], iframe[src], object[data], link[rel=stylesheet], link[rel=icon]")
    return sum(file.stat().st_size for file in {page, *_files(page, links)} if file.is_file())


def _files(page: Path, links: list) -> Iterator[Path]:
    for one in links:
        address = urlsplit(one.get("src") or one.get("href") or one.get("data"))
        if not address.scheme:
            yield (page.parent / unquote(address.path)).resolve()
