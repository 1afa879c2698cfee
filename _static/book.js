// A browser gives a page that is opened as a file no other file's text, from which the search would take its excerpts.
document.addEventListener("DOMContentLoaded", () => {
  if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
});

// Chapters come before the reference in the results of a search, and titles before texts.
var Scorer = {
  score: ([page, , , , score]) => score - (/\/(use\/reference|making|notation)/.test(page) ? 50 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 40,
  partialTitle: 20,
  term: 5,
  partialTerm: 2,
};

// On a phone an equation a little wider than its column is drawn smaller; a much wider one scrolls.
addEventListener("load", async () => {
  if (!window.MathJax?.startup || !matchMedia("(max-width: 576px)").matches) return;
  await MathJax.startup.promise;
  for (const equation of document.querySelectorAll("div.math mjx-container[display]")) {
    const least = 0.85 * parseFloat(getComputedStyle(equation).fontSize), column = equation.parentElement;
    for (let turn = 0; turn < 3 && column.clientWidth < column.scrollWidth; turn++) {
      const size = parseFloat(getComputedStyle(equation).fontSize) * 0.99 * column.clientWidth / column.scrollWidth;
      equation.style.setProperty("font-size", `${Math.max(least, size)}px`, "important");
    }
  }
});
