// The head of a conversation: its title, its agent, and what can be done with all of it.

import { useNavigate } from '@tanstack/react-router';
import { Braces, Ellipsis, FileText, Link2, ListTree, Share2 } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import type { TranscriptView } from '../stream';
import { IconButton } from '../ui/Button';
import { download } from '../ui/download';
import { lazyPart } from '../ui/lazyView';
import { Menu, MenuItem, MenuLine } from '../ui/Menu';
import { toast } from '../ui/toasts';
import { asMarkdown } from './export';

const ShareDialog = lazyPart(async () => (await import('../sharing/ShareDialog')).default, 'the links');

interface HeadProps {
  id: string;
  title: string;
  view: TranscriptView;
  children?: ReactNode;
}

export function Head({ id, title, view, children }: HeadProps) {
  const navigate = useNavigate();
  const [isSharing, setSharing] = useState(false);
  // The agent that answers now, or answered last: a handoff changes it.
  const current = view.turns.findLast((turn) => turn.agent)?.agent;
  const last = view.turns.at(-1);
  const name = (title || 'chat').replaceAll(/[^\p{L}\p{N}]+/gu, '-').slice(0, 60);
  const copyLink = () => void navigator.clipboard?.writeText(location.href).then(() => toast('Link copied.'));
  const exportJson = () =>
    download(`${name}.json`, 'application/json', JSON.stringify({ title, messages: view.messages }, null, 2));
  return (
    <div className="head">
      <h1 title={title}>{title || 'Chat'}</h1>
      {current ? <span className="quiet agent">Agent: {current}</span> : null}
      <span className="fill" />
      {children}
      <IconButton icon={Share2} label="Share" aria-haspopup="dialog" onClick={() => setSharing(true)} />
      <Menu trigger={<IconButton icon={Ellipsis} label="Chat actions" />}>
        <MenuItem icon={Link2} onSelect={copyLink}>
          Copy link
        </MenuItem>
        {last ? (
          <MenuItem icon={ListTree} onSelect={() => void navigate({ to: '/runs/$id', params: { id: last.runId } })}>
            View the last run
          </MenuItem>
        ) : null}
        <MenuLine />
        <MenuItem icon={FileText} onSelect={() => download(`${name}.md`, 'text/markdown', asMarkdown(title, view))}>
          Export as Markdown
        </MenuItem>
        <MenuItem icon={Braces} onSelect={exportJson}>
          Export as JSON
        </MenuItem>
      </Menu>
      {isSharing ? <ShareDialog conversationId={id} onClose={() => setSharing(false)} /> : null}
    </div>
  );
}
