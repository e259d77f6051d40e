/**
 * The files of the question that is being written: by button, by pasting, by dropping.
 */

import { element } from '../dom.js';
import { MAX_CHARACTERS, MAX_FILES, MAX_TEXT, decode, kindOf, problemOf, sizeOf, weightOf } from './files.js';
import { say } from './language.js';

/** @typedef {import('./files.js').Attached} Attached */
/** @typedef {import('./models.js').Model} Model */

const SIDE = 2048; // pixels; providers make larger images smaller themselves
const HEAVY = 1_000_000; // bytes of an image that is made smaller
const THUMB = 160;
const LARGEST = 50_000_000; // bytes that are read at all

/** @param {Blob} file @returns {Promise<string>} */
function asDataUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

/** Draw an image, at most so large. @param {ImageBitmap} image @param {number} side @param {number} quality */
function drawn(image, side, quality) {
  const scale = Math.min(1, side / Math.max(image.width, image.height));
  const canvas = element('canvas', { width: Math.max(1, Math.round(image.width * scale)), height: Math.max(1, Math.round(image.height * scale)) });
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d'));
  context.fillStyle = '#fff'; // JPEG has no transparency
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL('image/jpeg', quality);
}

/**
 * Read a file.
 * @param {File} file
 * @returns {Promise<Attached>}
 * @throws {Error} what is wrong with it, in words for people
 */
async function read(file) {
  const { name, size, type } = file;
  const kind = kindOf(type);
  if (kind === null) throw new Error(say('{name}: only images (PNG, JPEG, GIF, WebP), PDF and text files can be attached', { name }));
  if (size > LARGEST) throw new Error(say('{name} is too large ({size})', { name, size: sizeOf(size) }));
  if (kind === 'file') return { kind, name, size, data: await asDataUrl(file), thumb: '' };
  if (kind === 'text') {
    const text = decode(await file.arrayBuffer());
    if (text === null) throw new Error(say('{name}: only images (PNG, JPEG, GIF, WebP), PDF and text files can be attached', { name }));
    if (text.length > MAX_TEXT) throw new Error(say('{name} is too large ({size})', { name, size: sizeOf(size) }));
    return { kind, name, size, data: text, thumb: '' };
  }
  const image = await createImageBitmap(file).catch(() => { throw new Error(say('{name} cannot be read as an image', { name })); });
  const large = type !== 'image/gif' && (size > HEAVY || Math.max(image.width, image.height) > SIDE);
  const data = large ? drawn(image, SIDE, 0.85) : await asDataUrl(file);
  const thumb = drawn(image, THUMB, 0.8);
  image.close();
  return { kind, name: name || say('Image'), size, data, thumb };
}

/**
 * Make a list of files, with their pictures.
 * @param {readonly Attached[]} files
 * @param {(file: Attached) => void} [remove] what the button of each does
 */
export function fileList(files, remove) {
  return element('ul', { className: 'files', ariaLabel: say('Attached files') }, ...files.map((file) => {
    const { name, size, thumb, kind } = file;
    const item = element('li', { data: { kind } },
      thumb ? element('img', { src: thumb, alt: '' }) : element('span', { className: 'kind', ariaHidden: 'true' }, kind === 'file' ? 'PDF' : (/\.(\w{1,4})$/.exec(name)?.[1] ?? 'txt')),
      element('span', { className: 'file-name', title: name }, name, ' ', element('small', {}, sizeOf(size))));
    if (remove) {
      item.append(element('button', { type: 'button', className: 'quiet', ariaLabel: say('Remove {name}', { name }), onclick: () => remove(file) },
        element('span', { ariaHidden: 'true' }, '×')));
    }
    return item;
  }));
}

export class Attachments {
  /** @type {Attached[]} */
  #files = [];
  #reading = 0;
  #model;
  #others;
  #input = element('input', { type: 'file', multiple: true, id: 'files', className: 'hidden', tabIndex: -1, ariaHidden: 'true' });
  #button = element('button', { type: 'button', id: 'attach', ariaLabel: say('Attach files'), title: say('Attach files') }, element('span', { ariaHidden: 'true' }, '+'));
  #list = element('div', { className: 'attached' });
  #problem = element('p', { className: 'attach-problem', role: 'alert' });

  /**
   * @param {HTMLFormElement} composer
   * @param {HTMLTextAreaElement} prompt
   * @param {() => Model|undefined} model the chosen one
   * @param {() => readonly Attached[]} others those of the questions before, which are sent again
   */
  constructor(composer, prompt, model, others) {
    this.#model = model;
    this.#others = others;
    prompt.before(this.#list, this.#problem);
    composer.querySelector('.controls')?.prepend(this.#button, this.#input);
    this.#button.addEventListener('click', () => this.#input.click());
    this.#input.addEventListener('change', () => {
      this.add([...this.#input.files ?? []]);
      this.#input.value = ''; // the same file can be chosen again
    });
    prompt.addEventListener('paste', (event) => {
      const { files = [], types = [] } = event.clipboardData ?? {};
      if (!files.length || types.includes('text/plain')) return; // a text that has a picture of itself beside it
      event.preventDefault();
      this.add([...files]);
    });
    const place = document.documentElement; // what is dropped beside the page's own places is opened instead of it
    /** @param {DragEvent} event */
    const hasFiles = (event) => event.dataTransfer?.types.includes('Files');
    place.addEventListener('dragover', (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      if (composer.hidden && event.dataTransfer) event.dataTransfer.dropEffect = 'none';
      composer.classList.add('dropping');
    });
    place.addEventListener('dragleave', ({ relatedTarget }) => {
      if (!(relatedTarget instanceof Node && place.contains(relatedTarget))) composer.classList.remove('dropping');
    });
    place.addEventListener('drop', (event) => {
      composer.classList.remove('dropping');
      if (!hasFiles(event)) return;
      event.preventDefault();
      if (!composer.hidden) this.add([...event.dataTransfer?.files ?? []]);
    });
  }

  /** The files there are. @returns {readonly Attached[]} */
  get files() {
    return this.#files;
  }

  /** Whether the question can be sent with its files; says why not. */
  check() {
    const problem = this.#reading ? say('The files are still being read') : problemOf(this.#files, this.#model());
    this.#tell(problem);
    return !problem;
  }

  /** Return the files, and have none. */
  take() {
    const files = this.#files;
    this.set([]);
    return files;
  }

  /** @param {readonly Attached[]} files */
  set(files) {
    this.#files = [...files];
    this.#tell('');
    this.#draw();
  }

  /** Read files, as far as they may be attached. @param {File[]} given */
  async add(given) {
    const problems = [];
    this.#reading += 1;
    this.#tell('');
    for (const file of given) {
      try {
        if (this.#files.length >= MAX_FILES) throw new Error(say('A question has at most {most} files', { most: MAX_FILES }));
        const attached = await read(file);
        const problem = problemOf([attached], this.#model());
        if (problem) throw new Error(problem);
        if (weightOf([...this.#others(), ...this.#files, attached]) > MAX_CHARACTERS) {
          throw new Error(say('{name} is too large: the files of a conversation have at most {most} together', { name: file.name, most: sizeOf(MAX_CHARACTERS * 0.75) }));
        }
        this.#files.push(attached);
      } catch (error) {
        problems.push(/** @type {Error} */ (error).message);
      }
      this.#draw();
    }
    this.#reading -= 1;
    this.#tell(problems.join('\n'));
  }

  /** @param {string} problem */
  #tell(problem) {
    this.#problem.textContent = problem;
  }

  #draw() {
    const focused = this.#list.contains(document.activeElement);
    this.#list.replaceChildren(...(this.#files.length ? [fileList(this.#files, (file) => {
      this.#files = this.#files.filter((one) => one !== file);
      this.#tell('');
      this.#draw();
    })] : []));
    if (focused) (this.#list.querySelector('button') ?? this.#button).focus(); // its button has gone
  }
}
