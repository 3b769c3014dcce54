// The map of the keyboard.
import { Dialog } from '../ui/Dialog';
import { t } from '../ui/language';
import { MODIFIER, SHIFT, viewsFor } from './navigation';

const EVERYWHERE: readonly [string, string][] = [
  [`${MODIFIER}+K`, t('Search and commands')],
  [`${MODIFIER}+${SHIFT}+O`, t('New chat')],
  [`${MODIFIER}+${SHIFT}+S`, t('Show or hide the sidebar')],
  ['/', t('Go to the message field')],
  ['?', t('Keyboard shortcuts')],
];
const CHAT: readonly [string, string][] = [
  [t('Enter'), t('Send')],
  [`${SHIFT}+${t('Enter')}`, t('New line')],
  [t('Escape'), t('Stop the answer, in an empty field')],
];
const CHATS: readonly [string, string][] = [
  [t('Arrow keys'), t('Go from chat to chat')],
  [`${SHIFT}+↑ ${SHIFT}+↓`, t('Select a range, while chats are selected')],
];
const BOARD: readonly [string, string][] = [
  [t('Arrow keys'), t('Go from task to task')],
  [`${SHIFT}+← ${SHIFT}+→`, t('Move a task')],
];

export default function Keys({ isAdmin, onClose }: { isAdmin: boolean; onClose: () => void }) {
  return (
    <Dialog title={t('Keyboard shortcuts')} onClose={onClose}>
      <div className="keys">
        <div>
          <Section name={t('Everywhere')} keys={EVERYWHERE} />
          <Section name={t('Chat')} keys={CHAT} />
          <Section name={t('List of chats')} keys={CHATS} />
          <Section name={t('Board')} keys={BOARD} />
        </div>
        <Section
          name={t('Go to')}
          keys={viewsFor(isAdmin).map(({ name, key }): [string, string] => [`G ${key.toUpperCase()}`, name])}
        />
      </div>
    </Dialog>
  );
}

function Section({ name, keys }: { name: string; keys: readonly [string, string][] }) {
  return (
    <section>
      <h3>{name}</h3>
      <dl>
        {keys.map(([key, what]) => (
          <div key={key}>
            <dt>{what}</dt>
            <dd>
              {key.split(' ').map((part) => (
                <kbd key={part}>{part}</kbd>
              ))}
            </dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
