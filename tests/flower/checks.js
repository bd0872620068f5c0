// Sentences about what is wrong with the page as it is drawn: contrast (WCAG 2.1 AA), names, ids.
() => {
  const found = [];
  const parse = (colour) => {
    const [r, g, b, a = 1] = colour.match(/[\d.]+/g).map(Number);
    return [r, g, b, a];
  };
  const luminance = ([r, g, b]) => {
    const parts = [r, g, b].map((part) => {
      const p = part / 255;
      return p <= 0.04045 ? p / 12.92 : ((p + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour[3] === 1) return colour;
    }
    return [255, 255, 255, 1];
  };
  const walker = document.createTreeWalker(document.querySelector(".fair"), NodeFilter.SHOW_TEXT);
  const seen = new Set();
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const colour = element.closest("svg") ? style.fill : style.color;
    const [light, dark] = [luminance(parse(colour)), luminance(ground(element))].sort((a, b) => b - a);
    const ratio = (light + 0.05) / (dark + 0.05);
    const key = `${element.className.baseVal ?? element.className} ${element.tagName} ${ratio.toFixed(2)}`;
    if (ratio < 4.5 && !seen.has(key)) found.push(`contrast ${key}: ${walker.currentNode.textContent}`);
    seen.add(key);
  }
  for (const element of document.querySelectorAll(".fair a, .fair button, .fair input, .fair [tabindex]")) {
    const labelled = element.getAttribute("aria-label") || element.getAttribute("aria-labelledby") ||
      element.textContent.trim() || element.labels?.length;
    if (!labelled) found.push(`without a name: ${element.outerHTML.slice(0, 80)}`);
  }
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  for (const id of new Set(ids)) {
    if (ids.filter((one) => one === id).length > 1) found.push(`twice: #${id}`);
  }
  for (const element of document.querySelectorAll(".fair *")) {
    const box = element.getBoundingClientRect();
    const scrolls = element.closest(".fair-scroll, svg");
    if (!scrolls && box.width && box.right > innerWidth + 1) found.push(`too wide: ${element.className}`);
  }
  return found;
}
