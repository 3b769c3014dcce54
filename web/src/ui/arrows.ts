// The arrow keys that lead along the line: they point to where the line begins, and to where it goes on.
import { DIRECTION } from './language';

const isMirrored = DIRECTION === 'rtl';
export const BACKWARD = isMirrored ? 'ArrowRight' : 'ArrowLeft';
export const FORWARD = isMirrored ? 'ArrowLeft' : 'ArrowRight';
