// The map of the keyboard.
import { Dialog } from '../ui/Dialog';
import { MODIFIER, viewsFor } from './navigation';

const EVERYWHERE: readonly [string, string][] = [
  [`${MODIFIER}+K`, 'Search and commands'],
  [`${MODIFIER}+Shift+O`, 'New chat'],
  [`${MODIFIER}+Shift+S`, 'Show or hide the sidebar'],
  ['/', 'Go to the message field'],
  ['?', 'Keyboard shortcuts'],
];
const CHAT: readonly [string, string][] = [
  ['Enter', 'Send'],
  ['Shift+Enter', 'New line'],
  ['Escape', 'Stop the answer, in an empty field'],
];
const CHATS: readonly [string, string][] = [
  ['Arrow keys', 'Go from chat to chat'],
  ['Shift+↑ Shift+↓', 'Select a range, while chats are selected'],
];
const BOARD: readonly [string, string][] = [
  ['Arrow keys', 'Go from task to task'],
  ['Shift+← Shift+→', 'Move a task'],
];

export default function Keys({ isAdmin, onClose }: { isAdmin: boolean; onClose: () => void }) {
  return (
    <Dialog title="Keyboard shortcuts" onClose={onClose}>
      <div className="keys">
        <div>
          <Section name="Everywhere" keys={EVERYWHERE} />
          <Section name="Chat" keys={CHAT} />
          <Section name="List of chats" keys={CHATS} />
          <Section name="Board" keys={BOARD} />
        </div>
        <Section
          name="Go to"
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
