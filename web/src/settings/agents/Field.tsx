// A field of a form with its label, its hint, and the mistake that is in it.
import { type ReactNode, useId } from 'react';
import type { Fault } from './draft';

interface Control {
  id: string;
  'aria-invalid': true | undefined;
  'aria-describedby': string | undefined;
}

interface FieldProps {
  label: string;
  /** Its path on the wire, by which mistakes name it. */
  field: string;
  fault: Fault | null;
  hint?: ReactNode;
  className?: string;
  children: (control: Control) => ReactNode;
}

export function Field({ label, field, fault, hint, className = '', children }: FieldProps) {
  const id = useId();
  const message = fault?.field === field ? fault.message : undefined;
  const described = [message && `${id}-fault`, hint && `${id}-hint`].filter(Boolean).join(' ');
  return (
    <div className={`form-field ${className}`}>
      <label htmlFor={id}>{label}</label>
      {children({
        id,
        'aria-invalid': message === undefined ? undefined : true,
        'aria-describedby': described || undefined,
      })}
      {hint ? (
        <p id={`${id}-hint`} className="quiet hint">
          {hint}
        </p>
      ) : null}
      {message === undefined ? null : (
        <p id={`${id}-fault`} className="note bad" role="alert">
          {message}
        </p>
      )}
    </div>
  );
}
