// What states are called in the language of the app.
import { message, t } from './language';

/** The states that have translations: of runs, calls, plans, tasks, projects, documents, evaluations, tools, servers and workers. */
const STATES = new Set([
  message('queued'),
  message('running'),
  message('waiting'),
  message('paused'),
  message('suspended'),
  message('completed'),
  message('completed with errors'),
  message('failed'),
  message('cancelled'),
  message('pending'),
  message('pending review'),
  message('executing'),
  message('started'),
  message('skipped'),
  message('error'),
  message('outcome unknown'),
  message('planning'),
  message('active'),
  message('todo'),
  message('in progress'),
  message('blocked'),
  message('done'),
  message('draft'),
  message('in review'),
  message('ready'),
  message('published'),
  message('archived'),
  message('ended with errors'),
  message('answering'),
  message('judging'),
  message('passed'),
  message('not passed'),
  message('new'),
  message('changed'),
  message('approved'),
  message('gone'),
  message('helpful'),
  message('not helpful'),
  message('disabled'),
  message('not connected'),
  message('not connected yet'),
  message('more rights needed'),
  message('not tested yet'),
  message('alive'),
  message('draining'),
  message('stopping'),
  message('lost'),
]);

/** A state in the language of the app; one that is not known, as it is. */
export function stateInWords(state: string): string {
  const words = state.replaceAll('_', ' ');
  return STATES.has(words) ? t(words) : words;
}
