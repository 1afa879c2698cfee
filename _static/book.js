// A browser gives a page that is opened as a file no other file's text, from which the search would take its excerpts.
document.addEventListener("DOMContentLoaded", () => {
  if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
});
