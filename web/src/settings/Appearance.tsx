// How the app looks in this browser.
import { Contrast, Keyboard } from 'lucide-react';
import { openDialog } from '../shell/frame';
import { CONTRASTS, setLook, THEMES, useLook } from '../ui/theme';

export function Appearance() {
  const { theme, contrast } = useLook();
  return (
    <section className="appearance">
      <p className="quiet">Stored in this browser, for all who use it.</p>
      <Choice label="Theme" options={THEMES} value={theme} onChange={(theme) => setLook({ theme })} />
      <Choice label="Contrast" options={CONTRASTS} value={contrast} onChange={(contrast) => setLook({ contrast })} />
      <p className="quiet">
        <Contrast className="icon" /> “System” follows the settings of your device.
      </p>
      <button type="button" onClick={() => openDialog('keys')}>
        <Keyboard className="icon" /> Keyboard shortcuts
      </button>
    </section>
  );
}

function Choice<Value extends string>(props: {
  label: string;
  options: readonly (readonly [Value, string])[];
  value: Value;
  onChange: (value: Value) => void;
}) {
  const { label, options, value, onChange } = props;
  return (
    <fieldset className="segments">
      <legend>{label}</legend>
      {options.map(([name, shown]) => (
        <label key={name}>
          <input type="radio" name={label} checked={name === value} onChange={() => onChange(name)} /> {shown}
        </label>
      ))}
    </fieldset>
  );
}
