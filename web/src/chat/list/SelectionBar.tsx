// What can be done with the selected conversations, and what the last action did not do.
import { Archive, ArchiveRestore, FolderInput, Trash2 } from 'lucide-react';
import { counted } from './bulk';

interface BarProps {
  count: number;
  isArchive: boolean;
  /** What the last action did not do. */
  undone: readonly string[];
  onAll: () => void;
  onArchive: () => void;
  onMove: () => void;
  onDelete: () => void;
  onEnd: () => void;
}

export function SelectionBar(props: BarProps) {
  const { count, isArchive, undone, onAll, onArchive, onMove, onDelete, onEnd } = props;
  const isOff = count === 0;
  return (
    <div className="selection" role="group" aria-label="Selected chats">
      <p role="status">{count === 0 ? 'Select chats.' : `${counted(count)} selected`}</p>
      {undone.length > 0 ? (
        <div className="note bad" role="alert">
          {undone.map((words) => (
            <p key={words}>{words}</p>
          ))}
        </div>
      ) : null}
      <div className="controls">
        <button type="button" className="small" disabled={isOff} onClick={onArchive}>
          {isArchive ? <ArchiveRestore className="icon" /> : <Archive className="icon" />}
          {isArchive ? 'Unarchive' : 'Archive'}
        </button>
        <button type="button" className="small" disabled={isOff} onClick={onMove}>
          <FolderInput className="icon" /> Move
        </button>
        <button type="button" className="small" disabled={isOff} onClick={onDelete}>
          <Trash2 className="icon" /> Delete
        </button>
        <button type="button" className="plain small" onClick={onAll}>
          Select all
        </button>
        <button type="button" className="plain small" onClick={onEnd}>
          Cancel
        </button>
      </div>
    </div>
  );
}
