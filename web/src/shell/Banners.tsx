// What concerns the whole page, below it: that it shows copies, and that there is a newer version of it.
import { useOffline } from '../api/offline';
import { t } from '../ui/language';
import { renew, useIsOutdated } from './worker';

export function Banners() {
  const isOffline = useOffline();
  const isOutdated = useIsOutdated();
  return (
    <div className="banners" role="status">
      {isOffline ? <p>{t('Offline. Showing what this device has kept.')}</p> : null}
      {isOutdated ? (
        <p>
          {t('A new version of Rejoin is available.')}{' '}
          <button type="button" className="small" onClick={renew}>
            {t('Reload')}
          </button>
        </p>
      ) : null}
    </div>
  );
}
