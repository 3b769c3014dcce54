// Offers to notify the user when a long answer is ready. Once refused, it is not offered again; the settings still have it.
import { Bell, X } from 'lucide-react';
import { memo, useEffect, useState } from 'react';
import { IconButton } from '../ui/Button';
import { t } from '../ui/language';
import { toast } from '../ui/toasts';
import { switchOff, switchOn, useNotifications } from './notifications';

/** An answer that takes longer is long, in milliseconds. */
const LONG_MS = 15_000;

interface Props {
  runId: string | undefined;
  onLeave: () => void;
}

/** Memoised: asking the browser for its permission is slow, and an answer may change with each frame. */
export const NotifyOffer = memo(function NotifyOffer({ runId, onLeave }: Props) {
  const notifications = useNotifications();
  const [isLong, setLong] = useState(false);
  useEffect(() => {
    setLong(false);
    if (runId === undefined) return;
    const timer = setTimeout(() => setLong(true), LONG_MS);
    return () => clearTimeout(timer);
  }, [runId]);
  if (!isLong || notifications !== 'unasked') return null;
  const accept = async () => {
    await switchOn();
    onLeave();
    if (Notification.permission === 'granted') toast(t('You will be notified when the answer is ready.'));
    else toast(t('The browser did not allow notifications. You can allow them in the settings of the site.'), true);
  };
  const refuse = () => {
    switchOff();
    onLeave();
  };
  return (
    <div className="offer" role="group" aria-label={t('Notifications')}>
      <button type="button" className="small" onClick={() => void accept()}>
        <Bell className="icon" /> {t('Notify me when it is ready')}
      </button>
      <IconButton icon={X} label={t("Don't offer notifications again")} className="small" onClick={refuse} />
    </div>
  );
});
