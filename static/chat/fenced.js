import { element } from '../dom.js';
import { copyText } from './clipboard.js';
import { write } from './controls.js';
import { say } from './language.js';
import { Tokens } from './tokens.js';

const TOLD_MS = 2000; // how long a button says that it has copied

/**
 * A block of code that grows: the line that is being written is text, and takes its colours once
 * it is whole, so that every character is looked at once. A button copies it.
 */
export class Code {
  #code = element('code');
  #tokens;
  /** @type {Text|null} the end of the line that is being written */
  #line = null;
  #empty = true;

  /** @param {string} info what stands behind the fence */
  constructor(info) {
    const [language = ''] = info.split(/[\s{]/);
    this.#tokens = new Tokens(language);
    const copy = element('button', { type: 'button', className: 'copy', ariaLabel: say('Copy the code'), data: { label: say('Copy') } });
    copy.onclick = () => this.#copy(copy);
    this.block = element('pre', { tabIndex: 0, role: 'group', ariaLabel: `${say('Code')} ${info}`.trim(), data: { language } }, copy, this.#code);
    this.block.lang = 'en';
    this.block.dir = 'ltr';
  }

  /** Whether nothing was written yet. */
  get empty() {
    return this.#empty;
  }

  /** @param {string} text */
  append(text) {
    if (!text) return;
    this.#empty = false;
    const [first, ...others] = text.split('\n');
    this.#line = write(this.#code, this.#line, first);
    for (const line of others) {
      this.finish();
      this.#line = write(this.#code, null, `\n${line}`);
    }
  }

  /** Colour the line, which is whole. */
  finish() {
    if (!this.#tokens.known || !this.#line) return;
    const { data } = this.#line;
    const from = data[0] === '\n' ? 1 : 0;
    const tokens = this.#tokens.line(data.slice(from));
    if (!tokens.some(({ kind }) => kind)) return;
    this.#line.replaceWith('\n'.repeat(from), ...tokens.map(({ kind, text }) => (kind ? element('span', { className: kind }, text) : text)));
    this.#line = null;
  }

  /** @param {HTMLButtonElement} button */
  async #copy(button) {
    const said = await copyText(this.#code.textContent ?? '').then(() => say('Copied'), () => say('The browser did not allow copying'));
    const { label } = button.dataset;
    Object.assign(button, { ariaLabel: said });
    button.dataset.label = said;
    setTimeout(() => {
      button.ariaLabel = say('Copy the code');
      button.dataset.label = label;
    }, TOLD_MS);
  }
}
