// One conversation in the list: a link with its menu, a field while it is renamed, or a check box while chats are selected.
import { Link } from '@tanstack/react-router';
import {
  Archive,
  ArchiveRestore,
  Circle,
  CircleCheck,
  Ellipsis,
  FolderInput,
  Link2,
  Pencil,
  Pin,
  PinOff,
  Trash2,
} from 'lucide-react';
import { memo, useRef, useState } from 'react';
import { IconButton } from '../../ui/Button';
import { t } from '../../ui/language';
import { Menu, MenuItem, MenuLine } from '../../ui/Menu';
import { toast } from '../../ui/toasts';
import type { Mark } from '../activity';
import { shownTitle } from '../titles';
import type { RowActions } from './actions';
import type { Chat } from './chats';

const MARKS: Record<Mark, string> = { running: t('Running'), waiting: t('Waiting'), failed: t('Failed') };

interface Props {
  chat: Chat;
  mark: Mark | undefined;
  isCurrent: boolean;
  isTabStop: boolean;
  isUnread: boolean;
  /** A message of it could not be sent. */
  isStuck: boolean;
  /** null: chats are not being selected. */
  isSelected: boolean | null;
  actions: RowActions;
}

export const Row = memo(function Row(props: Props) {
  const { chat, mark, isCurrent, isTabStop, isUnread, isStuck, isSelected, actions } = props;
  const { id } = chat;
  const tabIndex = isTabStop ? 0 : -1;
  const [isRenamed, setRenamed] = useState(false);
  const isRenaming = useRef(false);
  const shown = shownTitle(chat);
  if (isRenamed) {
    return (
      <li data-row={id}>
        <Rename
          title={chat.title}
          onClose={(title, isByKey) => {
            isRenaming.current = false;
            setRenamed(false);
            if (isByKey) actions.keepAt(id);
            if (title !== null) actions.rename(id, title);
          }}
        />
      </li>
    );
  }
  const inside = (
    <>
      {mark ? <span className={`mark ${mark}`} role="img" aria-label={MARKS[mark]} /> : null}
      {isUnread && !mark ? <span className="mark" role="img" aria-label={t('Unread')} /> : null}
      <span dir="auto" className="name">
        {shown}
      </span>
      {isStuck ? <span className="quiet">{t('Not sent')}</span> : null}
    </>
  );
  return (
    <li
      data-row={id}
      className={isCurrent ? 'current' : isUnread ? 'unread' : undefined}
      onFocus={() => actions.onFocus(id)}
    >
      {isSelected === null ? (
        <>
          <Link
            to="/c/$id"
            params={{ id }}
            title={shown}
            tabIndex={tabIndex}
            aria-current={isCurrent ? 'page' : undefined}
          >
            {inside}
          </Link>
          <span className="row-actions">
            <Menu
              trigger={
                <IconButton
                  icon={Ellipsis}
                  label={t('Actions')}
                  name={t('Actions for {name}', { name: shown })}
                  tabIndex={tabIndex}
                />
              }
              onCloseAutoFocus={(event) => {
                // Renaming has taken the row's place.
                if (isRenaming.current) event.preventDefault();
              }}
            >
              <Actions
                chat={chat}
                isUnread={isUnread}
                actions={actions}
                onRename={() => {
                  isRenaming.current = true;
                  setRenamed(true);
                }}
              />
            </Menu>
          </span>
        </>
      ) : (
        <label title={shown}>
          <input
            type="checkbox"
            checked={isSelected}
            tabIndex={tabIndex}
            onChange={({ nativeEvent }) =>
              actions.select(id, nativeEvent instanceof MouseEvent && nativeEvent.shiftKey)
            }
          />
          {inside}
        </label>
      )}
    </li>
  );
});

interface ActionsProps {
  chat: Chat;
  isUnread: boolean;
  actions: RowActions;
  onRename: () => void;
}

function Actions({ chat, isUnread, actions, onRename }: ActionsProps) {
  const { id, marks } = chat;
  const copyLink = () =>
    void navigator.clipboard?.writeText(new URL(`/c/${id}`, location.origin).href).then(() => toast(t('Link copied.')));
  return (
    <>
      {marks?.archived ? null : marks?.pinned ? (
        <MenuItem icon={PinOff} onSelect={() => actions.arrange(id, { pinned: false })}>
          {t('Unpin')}
        </MenuItem>
      ) : (
        <MenuItem icon={Pin} onSelect={() => actions.arrange(id, { pinned: true })}>
          {t('Pin')}
        </MenuItem>
      )}
      <MenuItem icon={Pencil} onSelect={onRename}>
        {t('Rename')}
      </MenuItem>
      <MenuItem icon={FolderInput} onSelect={() => actions.move(chat)}>
        {t('Move to folder')}
      </MenuItem>
      {isUnread ? (
        <MenuItem icon={CircleCheck} onSelect={() => actions.markRead(id)}>
          {t('Mark as read')}
        </MenuItem>
      ) : marks && marks.lastMessageSeq > 0 ? (
        <MenuItem icon={Circle} onSelect={() => actions.markUnread(id)}>
          {t('Mark as unread')}
        </MenuItem>
      ) : null}
      <MenuItem icon={Link2} onSelect={copyLink}>
        {t('Copy link')}
      </MenuItem>
      <MenuLine />
      {marks?.archived ? (
        <MenuItem
          icon={ArchiveRestore}
          onSelect={() => actions.arrange(id, { archived: false }, t('Chat restored from the archive.'))}
        >
          {t('Unarchive')}
        </MenuItem>
      ) : (
        <MenuItem icon={Archive} onSelect={() => actions.arrange(id, { archived: true }, t('Chat archived.'))}>
          {t('Archive')}
        </MenuItem>
      )}
      <MenuItem icon={Trash2} isDangerous onSelect={() => actions.remove(chat)}>
        {t('Delete')}
      </MenuItem>
    </>
  );
}

interface RenameProps {
  title: string;
  /** `title` null: the name stays. */
  onClose: (title: string | null, isByKey: boolean) => void;
}

/** Leaving the field stores the name, as Enter does; Escape does not. */
function Rename({ title: before, onClose }: RenameProps) {
  const [title, setTitle] = useState(before);
  const isLeft = useRef(false);
  const close = (stores: boolean, isByKey: boolean) => {
    if (isLeft.current) return;
    isLeft.current = true;
    const wanted = title.trim();
    onClose(stores && wanted !== '' && wanted !== before ? wanted : null, isByKey);
  };
  return (
    <input
      aria-label={t('New name')}
      autoFocus
      maxLength={500}
      value={title}
      onChange={(event) => setTitle(event.target.value)}
      onBlur={() => close(true, false)}
      onKeyDown={(event) => {
        if (event.nativeEvent.isComposing || (event.key !== 'Enter' && event.key !== 'Escape')) return;
        // Escape leaves the field, and neither the drawer nor the selection.
        event.preventDefault();
        close(event.key === 'Enter', true);
      }}
    />
  );
}
