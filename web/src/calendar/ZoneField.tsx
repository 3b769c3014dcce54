// A field for a time zone name that suggests the zones the browser knows.
import { type InputHTMLAttributes, useId } from 'react';
import { t } from '../ui/language';

const ZONES = Intl.supportedValuesOf('timeZone');

export function ZoneField(props: InputHTMLAttributes<HTMLInputElement>) {
  const id = useId();
  return (
    <label>
      {t('Time zone')} <input list={id} required spellCheck={false} placeholder="Europe/Berlin" {...props} />
      <datalist id={id}>
        {ZONES.map((zone) => (
          <option key={zone} value={zone} />
        ))}
      </datalist>
    </label>
  );
}
