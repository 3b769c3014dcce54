// Lists the user's conversations: pinned ones, folders, the others by day; the archive; what a search finds; and the messages that could not be
// sent. The parts of the list are in `list/`.
import { Link } from '@tanstack/react-router';
import { Archive, Ellipsis, FolderPlus, ListChecks, Search, SquarePen } from 'lucide-react';
import { type KeyboardEvent, useCallback, useRef, useState } from 'react';
import { api } from '../api/http';
import { useOffline } from '../api/offline';
import { IconButton } from '../ui/Button';
import { t } from '../ui/language';
import { lazyPart } from '../ui/lazyView';
import { Menu, MenuItem } from '../ui/Menu';
import { ErrorNote } from '../ui/parts';
import { useLater } from '../ui/useLater';
import { useActivity } from './activity';
import { useActions } from './list/actions';
import { useBulk } from './list/bulk';
import { ListProvider } from './list/ChatRows';
import type { Chat, Folder } from './list/chats';
import { AllChats, ArchivedChats, KeptChats } from './list/Lists';
import { enter, selectable, useRows, walk } from './list/rows';
import { useSelection } from './list/selection';
import { useOutbox } from './outbox';
import { useUnread } from './seen';
import { shownTitle } from './titles';

const NameFolder = lazyPart(async () => (await import('./list/FolderDialogs')).NameFolder, t('the folder'));
const MoveToFolder = lazyPart(async () => (await import('./list/FolderDialogs')).MoveToFolder, t('the folders'));
const Found = lazyPart(async () => (await import('./list/Found')).Found, t('the results'));
const SelectionBar = lazyPart(async () => (await import('./list/SelectionBar')).SelectionBar, t('the actions'));

/** Pause in typing after which the search starts, in milliseconds. */
const TYPING_MS = 250;

/** The dialog that is open over the list. */
type Asked =
  | { what: 'name'; folder?: Folder }
  | { what: 'move'; chat: Chat }
  | { what: 'move selected'; count: number }
  | null;

export function Conversations({ current }: { current: string | null }) {
  const [words, setWords] = useState('');
  const [isArchive, setArchive] = useState(false);
  const [asked, setAsked] = useState<Asked>(null);
  const searched = useLater(words.trim(), TYPING_MS);
  const list = useRef<HTMLDivElement>(null);
  const rows = useRows(list, current);
  const selection = useSelection(list);
  const { selected, select } = selection;
  /** The menu's choice has led into the list. */
  const isBeginning = useRef(false);
  const move = useCallback((chat: Chat) => setAsked({ what: 'move', chat }), []);
  const { actions, error, changed, removed } = useActions({
    current,
    onFocus: rows.onFocus,
    keepAt: rows.keepAt,
    move,
    select,
  });
  const keepFocus = () => rows.keepAt(rows.stop ?? '');
  const bulk = useBulk({ selection, keepFocus, changed, removed });
  const outbox = useOutbox();
  const unsent = outbox.filter(({ state }) => state === 'unreachable' || state === 'refused');
  const stuck = new Set(unsent.map(({ place }) => place));
  const marks = useActivity();
  const isUnread = useUnread();
  const isOffline = useOffline();
  const isArchiveShown = isArchive && searched === '';
  const closeDialog = () => {
    setAsked(null);
    if (asked?.what === 'move') rows.keepAt(asked.chat.id);
    else if (asked?.what === 'name' && asked.folder) rows.keepAt(asked.folder.id);
    else keepFocus();
  };
  const showArchive = (isShown: boolean) => {
    setWords('');
    setArchive(isShown);
    selection.end();
  };
  const onKeyDown = (event: KeyboardEvent<HTMLElement>) => {
    if (event.key === 'Escape' && selected !== null && !event.defaultPrevented) {
      event.preventDefault();
      bulk.end();
      return;
    }
    const to = walk(event);
    if (to !== null && event.shiftKey && selected !== null) selection.extend(rows.stop, to);
  };
  return (
    <nav className="conversations" aria-label={t('Chats')} onKeyDown={onKeyDown}>
      <div className="tools">
        <div className="first">
          <Link to="/" className="side-link">
            <SquarePen className="icon" /> {t('New chat')}
          </Link>
          <Menu
            trigger={<IconButton icon={Ellipsis} label={t('List options')} />}
            onCloseAutoFocus={(event) => {
              if (!isBeginning.current) return;
              isBeginning.current = false;
              event.preventDefault();
              const ids = selectable(list.current);
              enter(list.current, rows.stop !== null && ids.includes(rows.stop) ? rows.stop : (ids[0] ?? rows.stop));
            }}
          >
            <MenuItem icon={FolderPlus} onSelect={() => setAsked({ what: 'name' })}>
              {t('New folder')}
            </MenuItem>
            <MenuItem
              icon={ListChecks}
              onSelect={() => {
                isBeginning.current = true;
                selection.begin();
              }}
            >
              {t('Select chats')}
            </MenuItem>
            <MenuItem icon={Archive} onSelect={() => showArchive(true)}>
              {t('Archived chats')}
            </MenuItem>
          </Menu>
        </div>
        <div className="find">
          <Search className="icon" />
          <input
            type="search"
            aria-label={t('Search chats')}
            placeholder={t('Search chats')}
            maxLength={200}
            value={words}
            onChange={(event) => setWords(event.target.value)}
            onKeyDown={(event) => {
              if (event.key !== 'ArrowDown' || event.nativeEvent.isComposing) return;
              event.preventDefault();
              enter(list.current, null);
            }}
          />
        </div>
      </div>
      <ListProvider value={{ current, stop: rows.stop, marks, stuck, isUnread, selected, actions }}>
        <div ref={list} className="listed">
          {error ? <ErrorNote error={error} /> : null}
          {isOffline ? (
            <KeptChats words={searched} />
          ) : searched !== '' ? (
            <Found words={searched} />
          ) : isArchiveShown ? (
            <ArchivedChats
              onBack={() => {
                showArchive(false);
                keepFocus();
              }}
            />
          ) : (
            <AllChats
              unsent={unsent}
              onRenameFolder={(folder) => setAsked({ what: 'name', folder })}
              onChanged={changed}
            />
          )}
        </div>
      </ListProvider>
      {selected === null ? null : (
        <SelectionBar
          count={selected.size}
          isArchive={isArchiveShown}
          undone={bulk.undone}
          onAll={selection.all}
          onArchive={() => void bulk.act(isArchiveShown ? 'unarchive' : 'archive')}
          onMove={() => setAsked({ what: 'move selected', count: selected.size })}
          onDelete={() => void bulk.remove()}
          onEnd={bulk.end}
        />
      )}
      {asked?.what === 'name' ? <NameFolder folder={asked.folder} onSaved={changed} onClose={closeDialog} /> : null}
      {asked?.what === 'move' ? (
        <MoveToFolder
          title={t('Move “{title}”', { title: shownTitle(asked.chat) })}
          from={asked.chat.marks?.folderId ?? null}
          onMove={async (folderId) => {
            await api(`/api/conversations/${asked.chat.id}`, { method: 'PATCH', body: { folderId } });
            rows.keepAt(asked.chat.id);
            await changed();
          }}
          onClose={closeDialog}
        />
      ) : null}
      {asked?.what === 'move selected' ? (
        <MoveToFolder
          title={t('Move {count, plural, one {# chat} other {# chats}}', { count: asked.count })}
          from={null}
          onMove={(folderId) => bulk.act('move', folderId)}
          onClose={closeDialog}
        />
      ) : null}
    </nav>
  );
}
