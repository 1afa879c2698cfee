// What print_book.py asks of a page of the book, and of the document of all pages.
window.print = {
  place: name => name.replaceAll("/", "-"),

  // The article as it looks, ready to stand beside others: places and links have the page's name in them.
  gather([name, names]) {
    const article = document.querySelector("article.bd-article"), here = print.place(name);
    const root = location.href.slice(0, location.href.indexOf(`${name}.html`));
    const target = address => {
      const [file, part] = address.split("#"), other = file.startsWith(root) && file.slice(root.length).replace(/\.html$/, "");
      if (!names.includes(other)) return null;
      return part ? `${print.place(other)}--${decodeURIComponent(part)}` : print.place(other);
    };
    for (const one of article.querySelectorAll("script, noscript, .headerlink, .downloads, details.hide :is(summary, .cell_input)")) one.remove();
    for (const one of article.querySelectorAll("details.hide")) one.replaceWith(...one.childNodes);
    for (const one of article.querySelectorAll("details")) one.open = true;
    for (const one of article.querySelectorAll("input")) one.setAttribute("value", one.value);
    for (const one of article.querySelectorAll("img[src]")) one.setAttribute("src", one.src);
    for (const link of article.querySelectorAll("a[href]")) {
      const to = target(link.href);
      if (to) link.setAttribute("href", `#${to}`);
      else if (link.href.startsWith("file:")) link.removeAttribute("href");
      // A reference to another chapter says on which page that is.
      if (to && !to.startsWith(`${here}--`) && to !== here && !link.closest("pre, dt, h1, h2, h3, h4")) {
        link.insertAdjacentHTML("afterend", `<span class="on-page">&nbsp;(p.&nbsp;<b data-page="${to}">000</b>)</span>`);
      }
    }
    for (const one of article.querySelectorAll("[id]:not(svg *)")) one.id = `${here}--${one.id}`;
    const title = article.querySelector("h1"), clean = title.cloneNode(true);
    article.id = here;
    return {
      name, place: here, title: clean.innerHTML, plain: clean.textContent.trim(), html: article.outerHTML,
      styles: [...document.querySelectorAll("link[rel=stylesheet], style")].filter(one => !article.contains(one))
        .map(one => one.href ? `<link rel="stylesheet" href="${one.href}">` : one.outerHTML),
    };
  },

  // What is wider than the paper is drawn smaller; code of many lines may go on on the next page.
  fit() {
    for (const one of document.querySelectorAll("article pre")) one.classList.toggle("long", one.textContent.split("\n").length > 14);
    const room = document.body.clientWidth;
    for (const one of document.querySelectorAll("article :is(table, .calculator, .html-figure), article mjx-container[display] > svg, article .output svg")) {
      const box = one.getBoundingClientRect(), within = one.parentElement.getBoundingClientRect();
      const wide = Math.min(room, within.right) - box.left;
      if (box.width > wide + 1 && wide > 0) one.style.zoom = Math.max(0.4, wide / Math.max(box.width, one.scrollWidth));
    }
  },

  number(pages) {
    for (const one of document.querySelectorAll("[data-page]")) one.textContent = pages[one.dataset.page] ?? "?";
  },

  dead: () => [...document.querySelectorAll("a[href^='#']")].map(one => one.getAttribute("href"))
    .filter(to => !document.getElementById(decodeURIComponent(to.slice(1)))),
};
