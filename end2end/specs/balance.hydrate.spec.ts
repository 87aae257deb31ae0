// The one live island: it wakes without moving anything, and shows what the server rendered.
import { expect, test } from '../fixtures/test';

test('the balance comes alive and nothing moves', async ({ page, signIn }) => {
  await signIn('customer');
  await page.addInitScript(() => {
    const seen = window as unknown as { shift: number };
    seen.shift = 0;
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) seen.shift += (entry as unknown as { value: number }).value;
    }).observe({ type: 'layout-shift', buffered: true });
  });
  const response = await page.goto('/');
  const rendered = /data-testid="available"[^>]*>([^<]+)</.exec((await response?.text()) ?? '')?.[1];
  await expect(page.locator('.as-of[data-live="yes"]')).toBeVisible();
  await expect(page.getByTestId('available')).toHaveText(rendered ?? '');
  await expect(page.locator('.as-of')).toContainText('live');
  expect(await page.evaluate(() => (window as unknown as { shift: number }).shift)).toBeLessThan(0.001);
});

test('a server that is away is said and waited for', async ({ page, signIn, reports }) => {
  await signIn('customer');
  await page.route('**/api/load_balance', (route) => route.abort());
  await page.goto('/');
  await expect(page.locator('.as-of')).toContainText('not live');
  await page.unroute('**/api/load_balance');
  await expect(page.locator('.as-of[data-live="yes"]')).toBeVisible({ timeout: 10_000 });
  // The browser reports the request that was cut off here.
  reports.splice(0, reports.length, ...reports.filter((line) => !line.includes('net::ERR_FAILED')));
});
