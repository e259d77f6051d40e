import { byId, element } from '../dom.js';
import { say } from './language.js';

/**
 * Offer the show on the welcome screen, where there is the demo's own model: it costs nothing.
 * @param {{id: string, owned_by?: string}[]} models what the relay offers
 */
export function offerShow(models) {
  const offered = document.getElementById('show');
  const free = models.some(({ id, owned_by }) => id === 'demo' && owned_by === 'demo');
  if (!free) return offered?.remove();
  if (offered) return;
  const button = element('button', { type: 'button', id: 'show', className: 'offer' },
    element('span', { className: 'offer-title' }, say('Watch it survive a cut')),
    element('span', { className: 'offer-what' }, say('Three readers of one answer, two of them cut in the middle. Real connections, no cost, ten seconds.')));
  button.addEventListener('click', async () => {
    const { Show } = await import('./show.js'); // few look at it: the page does not wait for it
    new Show().open();
  });
  byId('prompts', HTMLElement).before(button);
}
