/**
 * Make an icon of lines.
 * @param {string} path what it draws, in a square of 16
 */
export function icon(path) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  const line = document.createElementNS(svg.namespaceURI, 'path');
  for (const [name, value] of [['class', 'icon'], ['viewBox', '0 0 16 16'], ['width', '16'], ['height', '16'], ['aria-hidden', 'true']]) svg.setAttribute(name, value);
  line.setAttribute('d', path);
  svg.append(line);
  return svg;
}
