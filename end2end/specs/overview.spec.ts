// The customer's overview.
import { expect, test } from '../fixtures/test';
import { expectAccessible } from '../fixtures/axe';

test.beforeEach(async ({ page, signIn }) => {
  await signIn('customer');
  await page.goto('/');
});

test('what is left, what holds it and where it went', async ({ page }) => {
  await expect(page.getByRole('heading', { level: 1, name: 'Overview' })).toBeVisible();
  for (const figure of ['available', 'held', 'balance']) {
    await expect(page.getByTestId(figure)).toHaveText(/^-?[\d,]+(\.\d{1,6})?$/);
  }
  await expect(page.getByTestId('breaker')).not.toBeEmpty();
  for (const name of ['Held now', 'Ends next', 'Use by day', 'Recent entries']) {
    await expect(page.getByRole('heading', { level: 2, name })).toBeVisible();
  }
  await page.getByRole('link', { name: 'All entries' }).click();
  await expect(page.getByRole('heading', { level: 1, name: 'History' })).toBeVisible();
});

test('available and held make the balance', async ({ page }) => {
  const micros = async (figure: string) => {
    const [whole, fraction = ''] = (await page.getByTestId(figure).innerText()).replaceAll(',', '').split('.');
    return BigInt(whole + fraction.padEnd(6, '0'));
  };
  expect((await micros('available')) + (await micros('held'))).toBe(await micros('balance'));
});

test('the chart has its numbers as a table', async ({ page }) => {
  const figure = page.locator('figure.chart');
  await expect(figure.getByRole('img')).toHaveAccessibleName('Credits used by day');
  await figure.getByText('These numbers as a table').click();
  const cells = await figure.locator('tbody tr td:last-child').allInnerTexts();
  const micros = (text: string) => {
    const [whole, fraction = ''] = text.replaceAll(',', '').split('.');
    return BigInt(whole + fraction.padEnd(6, '0'));
  };
  const total = micros(await page.getByTestId('usage-total').innerText());
  expect(cells.reduce((sum, cell) => sum + micros(cell), 0n)).toBe(total);
});

test('light and dark by a switch that the next page remembers', async ({ page }) => {
  await page.getByRole('button', { name: 'Dark' }).click();
  await expect(page).toHaveURL('/');
  await expect(page.locator('html')).toHaveAttribute('data-theme', 'dark');
  await page.goto('/history');
  await expect(page.getByRole('button', { name: 'Dark' })).toHaveAttribute('aria-pressed', 'true');
  await page.goto('/history?theme=light');
  await expect(page.locator('html')).toHaveAttribute('data-theme', 'light');
  await page.goto('/history');
  await page.getByRole('button', { name: 'System' }).click();
  await expect(page.locator('html')).not.toHaveAttribute('data-theme');
});

for (const path of ['/', '/history', '/history/2', '/history?min=x', '/history?model=no-such-model']) {
  for (const colorScheme of ['light', 'dark'] as const) {
    for (const width of [1280, 320]) {
      test(`${path} is accessible and fits, ${colorScheme}, ${width} px`, async ({ page }) => {
        await page.emulateMedia({ colorScheme });
        await page.setViewportSize({ width, height: 800 });
        await page.goto(path);
        await expectAccessible(page);
        const widths = await page.locator('html').evaluate((html) => [html.scrollWidth, html.clientWidth]);
        expect(widths[0], 'no sideways scrolling').toBeLessThanOrEqual(widths[1]);
      });
    }
  }
}

test('nothing is loaded from elsewhere, and nothing is styled or scripted inline', async ({ page, baseURL }) => {
  const hosts = new Set<string>();
  page.on('request', (request) => hosts.add(new URL(request.url()).origin));
  const response = await page.goto('/history');
  const html = (await response?.text()) ?? '';
  expect([...hosts]).toEqual([new URL(baseURL ?? '').origin]);
  expect(html).not.toMatch(/\sstyle=/);
  expect(html).not.toMatch(/\son[a-z]+=/);
  expect(Buffer.byteLength(html)).toBeLessThanOrEqual(60 * 1024);
  const nonce = /<script[^>]* nonce="([^"]+)"/.exec(html)?.[1];
  if (nonce) expect(html.split(nonce).length).toBe(html.split(`nonce="${nonce}"`).length);
});
