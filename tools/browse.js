// What browse.py asks of a page. Each function returns plain data.
window.look = {
  sliders: "article [role=slider], article input[type=range]",
  name: one => one.tagName.toLowerCase() + [...one.classList].map(word => "." + word).join(""),

  // Wait for formulas and figures; list the formulas that are still text or have an error.
  async ready() {
    if (window.MathJax && MathJax.startup) await MathJax.startup.promise;
    const raw = [...document.querySelectorAll(".math")].filter(one => !one.querySelector("mjx-container"));
    const bad = [...document.querySelectorAll("[data-mml-node=merror], mjx-merror, [data-mjx-error]")];
    // A letter that this MathJax has no drawing of is one of the machine's own fonts.
    const lacking = [...document.querySelectorAll("mjx-container svg text")].filter(one => one.textContent.trim());
    return [...lacking.map(one => "a formula's letter without a drawing: " + one.textContent),
            ...raw.map(one => "formula left raw: " + one.textContent.trim().slice(0, 80)),
            ...bad.map(one => "formula with an error: " + (one.dataset.mjxError || one.textContent).slice(0, 80))];
  },

  // What a slider draws: the picture beside it, or the drawings and tables of its group.
  async shown(place) {
    const slider = document.querySelectorAll(look.sliders)[place];
    slider.focus();
    for (let left = 4; left; left--) await new Promise(requestAnimationFrame);
    const group = slider.matches("[role=slider]") ? slider : slider.closest("[role=group]") || slider.closest("div");
    return [...group.querySelectorAll("svg, table, img")].map(one => one.src || one.innerHTML).join("");
  },

  // Faults of the layout at one width and in one theme. Transitions are brought to their end first.
  async layout([width, theme, contrast]) {
    const root = document.documentElement, article = document.querySelector("article") || document.body;
    const settled = () => {
      for (const one of document.getAnimations()) { try { one.finish(); } catch { one.cancel(); } }
      return root.dataset.theme === theme && document.scrollingElement.scrollWidth <= width;
    };
    for (let left = 40; left && !settled(); left--) await new Promise(done => setTimeout(done, 50));
    const found = root.dataset.theme === theme ? [] : ["the theme is " + root.dataset.theme];
    const wide = document.scrollingElement.scrollWidth;
    if (wide > width) found.push(`scrolls sideways: ${wide} pixels`);
    return [...found, ...look.outside(article, width), ...look.illegible(article, contrast)];
  },

  // The first element that reaches over the window's edge, unless it scrolls or is cut within the page.
  outside(article, width) {
    const within = one => {
      for (; one && one !== article; one = one.parentElement)
        if (getComputedStyle(one).overflowX !== "visible") return true;
      return false;
    };
    for (const one of article.querySelectorAll("img, svg, table, pre, div, p, input, iframe")) {
      const box = one.getBoundingClientRect();
      if (box.width && (box.right > width + 1 || box.left < -1) && !within(one.parentElement))
        return [`${look.name(one)} reaches from ${Math.round(box.left)} to ${Math.round(box.right)}`];
    }
    return [];
  },

  // Texts whose colour has too little contrast with their background, by the formula of WCAG 2.
  illegible(article, contrast) {
    const numbers = colour => (colour.match(/[\d.]+/g) || []).map(Number);
    const light = colour => colour.slice(0, 3).map(value => value / 255)
      .map(value => value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4)
      .reduce((sum, value, place) => sum + value * [0.2126, 0.7152, 0.0722][place], 0);
    const known = new Map();
    const ground = one => {
      if (!one) return [255, 255, 255];
      if (!known.has(one)) {
        const colour = numbers(getComputedStyle(one).backgroundColor), opacity = colour[3] ?? 1;
        const behind = opacity === 1 ? colour : ground(one.parentElement);
        known.set(one, behind.slice(0, 3).map((value, place) => opacity * colour[place] + (1 - opacity) * value));
      }
      return known.get(one);
    };
    const found = new Map(), texts = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const one = texts.currentNode.parentElement, text = texts.currentNode.data.trim(), name = look.name(one);
      if (!text || one.closest("mjx-container, script, style, svg, .headerlink")) continue;
      if (found.has(name) || !one.checkVisibility({visibilityProperty: true, opacityProperty: true})) continue;
      const [front, back] = [light(numbers(getComputedStyle(one).color)), light(ground(one))];
      const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
      if (ratio < contrast) found.set(name, `hardly legible, ${ratio.toFixed(1)}: ${name}, ${text.slice(0, 40)}`);
    }
    return [...found.values()];
  },
};
