#!/bin/sh
# Put a built book beside those of other versions: SITE/VERSION, SITE/latest, and SITE/versions.html, to which every page links.
#   add_version.sh HTML SITE VERSION
set -eu
html=$1 site=$2 version=$3
mkdir -p "$site"
for name in "$version" latest; do
    rm -rf "${site:?}/$name"
    cp -r "$html" "$site/$name"
    # From every page the list is as many folders up as the page lies deep.
    (cd "$site/$name" && find . -name '*.html' | while read -r page; do
        up=$(dirname "$page" | sed 's|^\.||; s|/[^/]*|../|g')
        sed -i "s|<footer class=\"bd-footer-content\">|&<p class=\"container\">Version ${version#v} · <a href=\"${up}../versions.html\">other versions</a></p>|" "$page"
    done)
done
{
    echo '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Versions</title>'
    echo '<h1>The statistical mechanics of attention: versions</h1><ul>'
    (cd "$site" && echo latest && find v* -maxdepth 0 -type d | sort -rV) |
        while read -r name; do echo "<li><a href=\"$name/index.html\">$name</a></li>"; done
    echo '</ul></html>'
} >"$site/versions.html"
echo '<!doctype html><meta http-equiv="refresh" content="0; url=latest/index.html">' >"$site/index.html"
touch "$site/.nojekyll"
