/**
 * The page's ways to touch the document. Text goes in as text: nothing here parses markup.
 */

/**
 * Make an element. Properties are set as properties, `data` as data attributes, `aria*` reflect by name.
 *
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, any> & {data?: Record<string, string>}} [properties]
 * @param {...(Node|string)} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function element(tag, { data = {}, ...properties } = {}, ...children) {
  const made = document.createElement(tag);
  Object.assign(made, properties);
  Object.assign(made.dataset, data);
  made.append(...children);
  return made;
}

/**
 * Get an element of the page that must be there.
 * @template {Element} T
 * @param {string} id
 * @param {new () => T} [kind]
 * @returns {T}
 */
export function byId(id, kind = /** @type {any} */ (HTMLElement)) {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new Error(`the page has no ${kind.name} #${id}`);
  return found;
}
