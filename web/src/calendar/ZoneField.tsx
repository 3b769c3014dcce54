// A field for the name of a time zone; those that the browser knows are offered.
import { type InputHTMLAttributes, useId } from 'react';

const ZONES = Intl.supportedValuesOf('timeZone');

export function ZoneField(props: InputHTMLAttributes<HTMLInputElement>) {
  const id = useId();
  return (
    <label>
      Time zone <input list={id} required spellCheck={false} placeholder="Europe/Berlin" {...props} />
      <datalist id={id}>
        {ZONES.map((zone) => (
          <option key={zone} value={zone} />
        ))}
      </datalist>
    </label>
  );
}
