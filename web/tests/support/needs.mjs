// Programs that a test needs and a machine may lack.

/**
 * For the option `skip` of a test: false where nothing is missing, else the reason. With CI=true a missing program is an error: there,
 * everything is tried.
 */
export function skipWithout(there, reason) {
  if (there) return false;
  if (process.env.CI === 'true') throw new Error(`${reason}, and with CI=true nothing is skipped`);
  return `SKIPPED: ${reason}`;
}
