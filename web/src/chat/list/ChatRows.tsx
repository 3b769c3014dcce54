// Rows of conversations, with what the whole list knows of them.
import { createContext, useContext } from 'react';
import type { Mark } from '../activity';
import type { RowActions } from './actions';
import type { Chat } from './chats';
import { Row } from './Row';

interface List {
  /** The conversation that the page shows. */
  current: string | null;
  /** The row that the Tab key leads to. */
  stop: string | null;
  marks: ReadonlyMap<string, Mark>;
  /** Conversations with messages that could not be sent. */
  stuck: ReadonlySet<string>;
  isUnread: (chat: Chat) => boolean;
  /** null: chats are not being selected. */
  selected: ReadonlySet<string> | null;
  actions: RowActions;
}

const ListContext = createContext<List | null>(null);
export const ListProvider = ListContext.Provider;

export function useList(): List {
  const list = useContext(ListContext);
  if (list === null) throw new Error('useList is only for parts of the list of chats');
  return list;
}

/** Conversations below a heading; nothing where there are none. */
export function Group({ name, items }: { name: string; items: readonly Chat[] }) {
  if (items.length === 0) return null;
  return (
    <section aria-label={name}>
      <h3>{name}</h3>
      <ChatRows items={items} />
    </section>
  );
}

export function ChatRows({ items }: { items: readonly Chat[] }) {
  const { current, stop, marks, stuck, isUnread, selected, actions } = useList();
  return (
    <ul>
      {items.map((chat) => (
        <Row
          key={chat.id}
          chat={chat}
          mark={marks.get(chat.id)}
          isCurrent={chat.id === current}
          isTabStop={chat.id === stop}
          isUnread={chat.id !== current && isUnread(chat)}
          isStuck={stuck.has(chat.id)}
          isSelected={selected === null ? null : selected.has(chat.id)}
          actions={actions}
        />
      ))}
    </ul>
  );
}
