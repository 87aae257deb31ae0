// Paper and forced colours: what other ways of looking at a page must keep.
import { expect, test } from '../fixtures/test';

test('on paper the history is a table with its filter, without what can only be clicked', async ({ page, signIn }) => {
  await page.setViewportSize({ width: 700, height: 1000 });
  await signIn('customer');
  await page.goto('/history?kind=SETTLE');
  await page.emulateMedia({ media: 'print' });
  await expect(page.getByRole('columnheader', { name: 'Balance' })).toBeVisible();
  expect(await page.locator('table.entries tbody tr').first().evaluate((row) => getComputedStyle(row).display)).toBe('table-row');
  await expect(page.getByText('Only:')).toBeVisible();
  for (const hidden of ['Clear filter', 'Download all as CSV', 'Sign out', 'Change filter']) {
    await expect(page.getByText(hidden)).toBeHidden();
  }
  const width = await page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
  expect(width[0]).toBeLessThanOrEqual(width[1]);
});

test('on paper a balance stays on one line', async ({ page, signIn }) => {
  await page.setViewportSize({ width: 700, height: 1000 });
  await signIn('customer');
  await page.goto('/');
  await page.emulateMedia({ media: 'print' });
  for (const figure of await page.locator('.balance dd').all()) {
    const lines = await figure.evaluate((dd) => dd.getClientRects()[0].height / parseFloat(getComputedStyle(dd).lineHeight));
    expect(lines).toBeLessThan(1.5);
  }
});

test('with forced colours only the current page is marked', async ({ page, signIn }) => {
  await page.emulateMedia({ forcedColors: 'active' });
  await signIn('customer');
  await page.goto('/');
  const edge = (name: string) =>
    page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name }).evaluate((link) => getComputedStyle(link).borderBlockEndColor);
  const ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  expect(await edge('History')).toBe(ground);
  expect(await edge('Overview')).not.toBe(ground);
});
