// The head of a conversation: its title, its agent, and what can be done with all of it.

import { useNavigate } from '@tanstack/react-router';
import { Braces, CornerUpLeft, Ellipsis, FileText, Link2, ListTree, Share2 } from 'lucide-react';
import { memo, type ReactNode, useState } from 'react';
import { IconButton } from '../ui/Button';
import { t } from '../ui/language';
import { lazyPart } from '../ui/lazyView';
import { Menu, MenuItem, MenuLine } from '../ui/Menu';
import { toast, toastError } from '../ui/toasts';
import { useOrigin } from './branches';
import { exportChat } from './export';

const ShareDialog = lazyPart(async () => (await import('../sharing/ShareDialog')).default, t('the links'));

interface HeadProps {
  id: string;
  title: string;
  /** Of the stored chat, once it is known. */
  metadata: unknown;
  /** The agent that answers now, or answered last: a handoff changes it. */
  agent: string | undefined;
  /** The last run. */
  runId: string | undefined;
  children?: ReactNode;
}

/** Memoised: it stays as it is while an answer streams. */
export const Head = memo(function Head({ id, title, metadata, agent, runId, children }: HeadProps) {
  const navigate = useNavigate();
  const [isSharing, setSharing] = useState(false);
  const origin = useOrigin(metadata);
  const copyLink = () => void navigator.clipboard?.writeText(location.href).then(() => toast(t('Link copied.')));
  const exportAs = (format: 'markdown' | 'json') => void exportChat(id, title, format).catch(toastError);
  return (
    <div className="head">
      <h1 dir="auto" title={title}>
        {title || t('Chat')}
      </h1>
      {agent ? <span className="quiet agent">{t('Agent: {name}', { name: agent })}</span> : null}
      <span className="fill" />
      {children}
      <IconButton icon={Share2} label={t('Share')} aria-haspopup="dialog" onClick={() => setSharing(true)} />
      <Menu trigger={<IconButton icon={Ellipsis} label={t('Chat actions')} />}>
        <MenuItem icon={Link2} onSelect={copyLink}>
          {t('Copy link')}
        </MenuItem>
        {origin ? (
          <MenuItem icon={CornerUpLeft} onSelect={() => void navigate({ to: '/c/$id', params: { id: origin.id } })}>
            {t('Open the original chat')}
          </MenuItem>
        ) : null}
        {runId ? (
          <MenuItem icon={ListTree} onSelect={() => void navigate({ to: '/runs/$id', params: { id: runId } })}>
            {t('View the last run')}
          </MenuItem>
        ) : null}
        <MenuLine />
        <MenuItem icon={FileText} onSelect={() => exportAs('markdown')}>
          {t('Export as Markdown')}
        </MenuItem>
        <MenuItem icon={Braces} onSelect={() => exportAs('json')}>
          {t('Export as JSON')}
        </MenuItem>
      </Menu>
      {isSharing ? <ShareDialog conversationId={id} onClose={() => setSharing(false)} /> : null}
    </div>
  );
});
