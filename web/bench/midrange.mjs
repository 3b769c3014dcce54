// A mid-range device: a processor four times as slow as this one, and a network like "Fast 4G" in Chromium's developer tools.

export const CPU_SLOWDOWN = 4;
/** What the developer tools make of 9 Mbit/s down, 1.5 Mbit/s up and 60 ms: throughput [bytes/s], latency [ms]. */
const NETWORK = {
  downloadThroughput: ((9 * 1_000_000) / 8) * 0.9,
  uploadThroughput: ((1.5 * 1_000_000) / 8) * 0.9,
  latency: 60 * 2.75,
};

/** Makes a page one of such a device. Its service worker keeps the fast network. */
export async function slowDown(page) {
  const devtools = await page.context().newCDPSession(page);
  await devtools.send('Emulation.setCPUThrottlingRate', { rate: CPU_SLOWDOWN });
  await devtools.send('Network.enable');
  await devtools.send('Network.emulateNetworkConditions', { offline: false, ...NETWORK });
}
