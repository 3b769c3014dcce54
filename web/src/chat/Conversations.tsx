// Lists the user's conversations with search, rename and delete, and the messages that could not be sent.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { Ellipsis, Link2, Pencil, Search, SquarePen, Trash2 } from 'lucide-react';
import { type KeyboardEvent, useEffect, useRef, useState } from 'react';
import { api, type Schemas } from '../api/http';
import { More, usePages } from '../api/pages';
import { IconButton } from '../ui/Button';
import { confirmed } from '../ui/Dialog';
import { Menu, MenuItem, MenuLine } from '../ui/Menu';
import { ErrorNote } from '../ui/parts';
import { toast } from '../ui/toasts';
import { type Mark, useActivity } from './activity';
import { byDays } from './days';
import { forgetDraft } from './draft';
import { useOutbox } from './outbox';
import { isNewPlace } from './places';
import { useNews } from './seen';
import { shownTitle } from './titles';

type Conversation = Schemas['ConversationBody'];

/** Pause in typing after which the search starts, in milliseconds. */
const TYPING_MS = 250;

export function Conversations({ current }: { current: string | null }) {
  const [words, setWords] = useState('');
  /** The row that the Tab key leads to; arrow keys go to the others. */
  const [stop, setStop] = useState<string | null>(null);
  const searched = useLater(words.trim(), TYPING_MS);
  const queries = useQueryClient();
  const navigate = useNavigate();
  const list = useRef<HTMLElement>(null);
  const all = usePages<Conversation>(['conversations', searched], '/api/conversations', {
    refetchMs: searched === '' ? 15_000 : false,
    narrowedBy: { q: searched || undefined },
  });
  const { isSuccess, hasNextPage, isFetching, fetchNextPage } = all.reading;
  // A page of a search looks through a part of the conversations, and may find nothing there.
  useEffect(() => {
    if (searched !== '' && all.items.length === 0 && hasNextPage && !isFetching) void fetchNextPage();
  }, [searched, all.items.length, hasNextPage, isFetching, fetchNextPage]);
  const changed = () => queries.invalidateQueries({ queryKey: ['conversations'] });
  const rename = useMutation({
    mutationFn: ({ id, title }: { id: string; title: string }) =>
      api(`/api/conversations/${id}`, { method: 'PATCH', body: { title } }),
    onSuccess: async (_, { id }) => {
      await queries.invalidateQueries({ queryKey: ['conversation', id] });
      await changed();
    },
  });
  const remove = useMutation({
    mutationFn: (id: string) => api(`/api/conversations/${id}`, { method: 'DELETE' }),
    onSuccess: async (_, id) => {
      forgetDraft(id);
      if (id === current) await navigate({ to: '/' });
      else list.current?.querySelector<HTMLElement>('input[type=search]')?.focus();
      await changed();
    },
  });
  const isNews = useNews();
  const outbox = useOutbox();
  const stuck = outbox.filter(({ state }) => state === 'unreachable' || state === 'refused');
  // Each conversation that is not there yet, by its first message.
  const begun = stuck.filter(
    ({ place }, nth) => isNewPlace(place) && stuck.findIndex((one) => one.place === place) === nth,
  );
  const failed = all.reading.error ?? rename.error ?? remove.error;
  const marks = useActivity();
  const groups = searched === '' ? byDays(all.items, marks) : [{ name: 'Results', items: all.items }];
  const listed = groups.flatMap(({ items }) => items);
  const has = (id: string | null) => id !== null && listed.some((one) => one.id === id);
  const tabStop = has(stop) ? stop : has(current) ? current : listed[0]?.id;
  return (
    <nav ref={list} className="conversations" aria-label="Chats">
      <div className="tools">
        <Link to="/" className="side-link">
          <SquarePen className="icon" /> New chat
        </Link>
        <div className="find">
          <Search className="icon" />
          <input
            type="search"
            aria-label="Search chats"
            placeholder="Search chats"
            maxLength={200}
            value={words}
            onChange={(event) => setWords(event.target.value)}
          />
        </div>
      </div>
      {/* biome-ignore lint/a11y/noStaticElementInteractions: the keys bubble up from its rows. */}
      <div className="listed" onKeyDown={walk}>
        {failed ? <ErrorNote error={failed} /> : null}
        {begun.length > 0 ? (
          <ul aria-label="Not sent">
            {begun.map(({ place, message }) => (
              <li key={place}>
                <Link to="/new/$place" params={{ place }}>
                  <span className="mark failed" role="img" aria-label="Not sent" />
                  <span className="name">{message}</span>
                  <span className="quiet">Not sent</span>
                </Link>
              </li>
            ))}
          </ul>
        ) : null}
        {groups.map(({ name, items }) =>
          items.length === 0 ? null : (
            <section key={name} aria-label={name}>
              <h3>{name}</h3>
              <ul>
                {items.map((one) => (
                  <Row
                    key={one.id}
                    conversation={one}
                    mark={marks.get(one.id)}
                    isCurrent={one.id === current}
                    isTabStop={one.id === tabStop}
                    onFocus={() => setStop(one.id)}
                    isNews={one.id !== current && isNews(one.id, one.updatedAt)}
                    isStuck={stuck.some(({ place }) => place === one.id)}
                    onRename={(title) => rename.mutate({ id: one.id, title })}
                    onRemove={() => remove.mutate(one.id)}
                  />
                ))}
              </ul>
            </section>
          ),
        )}
        <p className="quiet" role="status">
          {searched === ''
            ? isSuccess && all.items.length === 0
              ? 'Your chats will be listed here.'
              : ''
            : isFetching
              ? 'Searching…'
              : isSuccess && all.items.length === 0 && !hasNextPage
                ? `No chats match “${searched}”.`
                : ''}
        </p>
        <More of={all} />
      </div>
    </nav>
  );
}

/** Arrow keys go from row to row, and within a row from its link to its actions. */
function walk(event: KeyboardEvent<HTMLElement>): void {
  const row = event.target instanceof Element ? event.target.closest('li') : null;
  if (!row || event.target instanceof HTMLInputElement || event.defaultPrevented) return;
  if (event.key === 'ArrowRight' || event.key === 'ArrowLeft') {
    row.querySelector<HTMLElement>(event.key === 'ArrowRight' ? 'button' : 'a')?.focus();
  } else {
    const rows = [...event.currentTarget.querySelectorAll('li')];
    const at = rows.indexOf(row);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1 }[event.key];
    if (to === undefined) return;
    rows[to]?.querySelector<HTMLElement>('a')?.focus();
  }
  event.preventDefault();
}

/** A value, once it has stayed the same for a while. */
function useLater(value: string, ms: number): string {
  const [later, setLater] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setLater(value), value === '' ? 0 : ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return later;
}

const MARKS: Record<Mark, string> = { running: 'Running', waiting: 'Waiting', failed: 'Failed' };

function Row(props: {
  conversation: Conversation;
  mark: Mark | undefined;
  isCurrent: boolean;
  isTabStop: boolean;
  onFocus: () => void;
  isNews: boolean;
  isStuck: boolean;
  onRename: (title: string) => void;
  onRemove: () => void;
}) {
  const { conversation, mark, isCurrent, isTabStop, onFocus, isNews, isStuck, onRename, onRemove } = props;
  const tabIndex = isTabStop ? 0 : -1;
  const [title, setTitle] = useState<string | null>(null);
  const isLeft = useRef(false);
  const isRenamed = useRef(false);
  const shown = shownTitle(conversation);
  if (title !== null) {
    // Leaving the field stores the name, as Enter does; Escape does not.
    const close = (stores: boolean) => {
      if (isLeft.current) return;
      isLeft.current = true;
      isRenamed.current = false;
      const wanted = title.trim();
      if (stores && wanted !== '' && wanted !== conversation.title) onRename(wanted);
      setTitle(null);
    };
    return (
      <li>
        <input
          aria-label="New name"
          autoFocus
          maxLength={500}
          value={title}
          onChange={(event) => setTitle(event.target.value)}
          onBlur={() => close(true)}
          onKeyDown={(event) => {
            if (event.nativeEvent.isComposing) return;
            if (event.key === 'Enter' || event.key === 'Escape') close(event.key === 'Enter');
          }}
        />
      </li>
    );
  }
  const copyLink = () =>
    void navigator.clipboard
      ?.writeText(new URL(`/c/${conversation.id}`, location.origin).href)
      .then(() => toast('Link copied.'));
  const askToRemove = async () => {
    const detail = "This deletes all its messages and can't be undone.";
    if (await confirmed({ title: `Delete “${shown}”?`, detail, action: 'Delete chat' })) onRemove();
  };
  return (
    <li className={isCurrent ? 'current' : isNews ? 'unread' : undefined} onFocus={onFocus}>
      <Link
        to="/c/$id"
        params={{ id: conversation.id }}
        title={shown}
        tabIndex={tabIndex}
        aria-current={isCurrent ? 'page' : undefined}
      >
        {mark ? <span className={`mark ${mark}`} role="img" aria-label={MARKS[mark]} /> : null}
        {isNews && !mark ? <span className="mark" role="img" aria-label="Unread" /> : null}
        <span className="name">{shown}</span>
        {isStuck ? <span className="quiet">Not sent</span> : null}
      </Link>
      <span className="row-actions">
        <Menu
          trigger={<IconButton icon={Ellipsis} label="Actions" name={`Actions for ${shown}`} tabIndex={tabIndex} />}
          onCloseAutoFocus={(event) => {
            // Renaming has taken the row's place.
            if (isRenamed.current) event.preventDefault();
          }}
        >
          <MenuItem
            icon={Pencil}
            onSelect={() => {
              isLeft.current = false;
              isRenamed.current = true;
              setTitle(conversation.title);
            }}
          >
            Rename
          </MenuItem>
          <MenuItem icon={Link2} onSelect={copyLink}>
            Copy link
          </MenuItem>
          <MenuLine />
          <MenuItem icon={Trash2} isDangerous onSelect={() => void askToRemove()}>
            Delete
          </MenuItem>
        </Menu>
      </span>
    </li>
  );
}
