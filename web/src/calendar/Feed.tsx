// Creates, replaces and deletes the address by which other apps subscribe to a calendar. The address is shown once.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { api, type Schemas } from '../api/http';
import { Dialog } from '../ui/Dialog';
import { t } from '../ui/language';
import { ErrorNote } from '../ui/parts';
import type { Calendar } from './CalendarView';

export function Feed({ calendar, onClose }: { calendar: Calendar; onClose: () => void }) {
  const queries = useQueryClient();
  const [isCopied, setCopied] = useState(false);
  const path = `/api/calendars/${calendar.id}/feed`;
  const onSettled = () => queries.invalidateQueries({ queryKey: ['calendars'] });
  const make = useMutation({
    mutationFn: () => api<Schemas['FeedBody']>(path, { method: 'POST', body: {} }),
    onSettled,
  });
  const remove = useMutation({
    mutationFn: () => api(path, { method: 'DELETE' }),
    onSuccess: () => make.reset(),
    onSettled,
  });
  const failed = make.error ?? remove.error;
  const url = make.data?.url;
  return (
    <Dialog title={t('Subscribe from another app')} onClose={onClose}>
      <p>
        {t(
          'Other apps can subscribe to “{name}” at a feed address and receive its changes. Anyone who has the address can read the whole calendar without signing in.',
          { name: calendar.name },
        )}
      </p>
      {url ? (
        <div className="note" role="status">
          <p>{t('Copy the address now. It will not be shown again.')}</p>
          <p>
            <code className="address">{url}</code>
          </p>
          <button
            type="button"
            className="small"
            onClick={() =>
              void navigator.clipboard.writeText(url).then(
                () => setCopied(true),
                () => setCopied(false),
              )
            }
          >
            {isCopied ? t('Copied') : t('Copy')}
          </button>
        </div>
      ) : (
        <p role="status">
          {calendar.hasFeed
            ? t('A feed address exists. Creating a new one stops the old one from working.')
            : t('No feed address yet.')}
        </p>
      )}
      {failed ? <ErrorNote error={failed} /> : null}
      <div className="actions">
        <button
          type="button"
          disabled={make.isPending}
          onClick={() => {
            setCopied(false);
            make.mutate();
          }}
        >
          {calendar.hasFeed ? t('Create a new address') : t('Create an address')}
        </button>
        {calendar.hasFeed ? (
          <button type="button" disabled={remove.isPending} onClick={() => remove.mutate()}>
            {t('Delete address')}
          </button>
        ) : null}
      </div>
    </Dialog>
  );
}
