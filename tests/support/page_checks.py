"""Scripts that return the faults of a page in a browser as a list."""

from __future__ import annotations

# Contrast of each piece of text with what lies behind it, by WCAG 2: relative luminance, the nearest opaque background.
CONTRAST = """
(() => {
  const rgb = s => (s.match(/[\\d.]+/g) || []).map(Number);
  const lum = c => { const [r, g, b] = c.slice(0, 3).map(v => { v /= 255;
    return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor);
    if (c.length === 3 || c[3] === 1) return c; } return [255, 255, 255]; };
  const worst = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || e.closest('title') || !e.getClientRects().length) continue;
    const style = getComputedStyle(e);
    const ink = rgb(e.closest('svg') ? style.fill : style.color);
    const [a, b] = [lum(ink), lum(behind(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) worst.push([ratio.toFixed(2), walk.currentNode.data.trim().slice(0, 40)]);
  }
  return worst;
})()
"""
# Text that reaches beyond its drawing, or lies on other text of it.
CROWDED = """
(() => {
  const bad = [];
  for (const svg of document.querySelectorAll('main svg')) {
    const frame = svg.getBoundingClientRect();
    const boxes = [...svg.querySelectorAll('text')].map(t => [t.getBoundingClientRect(), t.textContent]);
    boxes.forEach(([a, name], i) => {
      if (a.left < frame.left - 2 || a.right > frame.right + 2 || a.bottom > frame.bottom + 2) bad.push(['out', name]);
      for (const [b, other] of boxes.slice(i + 1))
        if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 3 &&
            Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4) bad.push(['on', name, other]);
    });
  }
  return bad;
})()
"""
# Things to use that a screen reader could not name.
NAMELESS = """
(() => [...document.querySelectorAll('button, input:not([type=hidden]), select, audio[controls], fieldset, a')]
  .filter(e => !(e.getAttribute('aria-label') || e.textContent || '').trim() &&
    !(e.labels && [...e.labels].some(l => l.textContent.trim())) &&
    !(e.querySelector && e.querySelector('legend')))
  .map(e => e.outerHTML.slice(0, 80)))()
"""
# Things to press that a finger would miss (WCAG 2.2, target size: 24 pixels).
SMALL = """
(() => [...document.querySelectorAll('button, input:not([type=hidden]), select')].filter(e => e.getClientRects().length)
  .filter(e => { const b = (e.closest('label') || e).getBoundingClientRect(); return b.width < 24 || b.height < 24; })
  .map(e => e.outerHTML.slice(0, 80)))()
"""
