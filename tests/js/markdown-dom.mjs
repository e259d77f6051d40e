// As much of a document as the page's Markdown touches, and its nodes as markup.

class FakeChild {
  parent = null;

  remove() {
    this.parent.childNodes.splice(this.parent.childNodes.indexOf(this), 1);
    this.parent = null;
  }

  replaceWith(node) {
    node.parent = this.parent;
    this.parent.childNodes.splice(this.parent.childNodes.indexOf(this), 1, node);
    this.parent = null;
  }
}

export class FakeElement extends FakeChild {
  constructor(localName) {
    super();
    Object.assign(this, { localName, childNodes: [], dataset: {}, lang: '' });
  }

  append(...children) {
    for (const child of children) {
      if (child === '') continue;
      const node = typeof child === 'string' ? new FakeText(child) : child;
      node.parent = this;
      this.childNodes.push(node);
    }
  }

  get lastChild() {
    return this.childNodes.at(-1) ?? null;
  }

  get textContent() {
    return this.childNodes.map((child) => child.textContent).join('');
  }
}

export class FakeText extends FakeChild {
  constructor(data) {
    super();
    this.data = data;
  }

  appendData(data) {
    this.data += data;
  }

  get textContent() {
    return this.data;
  }
}

Object.assign(globalThis, { Text: FakeText, HTMLElement: FakeElement });
globalThis.document = { createElement: (tag) => new FakeElement(tag), createTextNode: (data) => new FakeText(data) };

/** Markdown that grew by these pieces. */
export function grow(Markdown, pieces) {
  const root = new FakeElement('div');
  const markdown = new Markdown(root);
  for (const piece of pieces) markdown.append(piece);
  markdown.finish();
  return root;
}

/** A node as markup, with what matters of its properties. */
export function markup(node) {
  if (node instanceof FakeText) return node.data;
  const { localName: name, href, start, className, dataset } = node;
  const inside = node.childNodes.map(markup).join('');
  if (name === 'button') return '';
  if (name === 'input') return node.checked ? '[x]' : '[ ]';
  if (name === 'br' || name === 'hr') return `<${name}/>`;
  const about = [className, href, start, dataset.language, dataset.code].filter((one) => one !== undefined && one !== '').map((one) => ` ${one}`);
  return `<${name}${about.join('')}>${inside}</${name}>`;
}
