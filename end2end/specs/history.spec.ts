// The customer's history: all of its state is in the URL.
import { expect, test } from '../fixtures/test';
import type { Page } from '@playwright/test';

const rows = (page: Page) => page.locator('table.entries tbody tr');
const links = (page: Page) => rows(page).locator('td:nth-child(2) a').evaluateAll((all) => all.map((a) => a.getAttribute('href')));

test.beforeEach(async ({ signIn }) => {
  await signIn('customer');
});

test('pages go both ways and a reload keeps the rows', async ({ page }) => {
  await page.goto('/history');
  const first = await links(page);
  expect(first.length).toBe(50);
  await page.getByRole('link', { name: 'Older' }).click();
  await expect(page).toHaveURL(/cursor=/);
  const second = await links(page);
  expect(second.filter((href) => first.includes(href))).toEqual([]);
  await page.reload();
  expect(await links(page)).toEqual(second);
  await page.getByRole('link', { name: 'Newer', exact: true }).click();
  expect(await links(page)).toEqual(first);
  await page.goBack();
  expect(await links(page)).toEqual(second);
  await page.getByRole('link', { name: 'Newest' }).click();
  await expect(page).toHaveURL('/history');
});

test('each row follows from the one below it', async ({ page }) => {
  await page.goto('/history');
  const micros = (text: string) => {
    const [whole, fraction = ''] = text.replaceAll(/[,+]/g, '').split('.');
    const size = BigInt(whole.replace('-', '') + fraction.padEnd(6, '0'));
    return whole.startsWith('-') ? -size : size;
  };
  const table = await rows(page).evaluateAll((all) =>
    all.map((row) => [6, 7].map((column) => row.querySelector(`td:nth-child(${column})`)?.textContent ?? '')),
  );
  for (const [at, [amount, balance]] of table.slice(0, -1).entries()) {
    expect(micros(balance) - micros(amount), `row ${at}`).toBe(micros(table[at + 1][1]));
  }
});

test('the filter is a form, its state the URL', async ({ page }) => {
  await page.goto('/history');
  await page.getByText('Filter', { exact: true }).click();
  await page.getByRole('checkbox', { name: 'Credits added' }).check();
  await page.getByRole('button', { name: 'Show' }).click();
  await expect(page).toHaveURL(/kind=TOPUP/);
  const found = await links(page);
  expect(found.length).toBeGreaterThan(0);
  await expect(rows(page).first()).toContainText('credits added');
  await expect(page.getByTestId('totals')).toContainText(new RegExp(`Total of ${found.length} entr`));
  await expect(page.getByText('Only: Credits added')).toBeVisible();
  await page.getByText('Change filter').click();
  await expect(page.getByRole('checkbox', { name: 'Credits added' })).toBeChecked();
  await page.reload();
  expect(await links(page)).toEqual(found);
  await page.getByRole('link', { name: 'Clear filter' }).click();
  await expect(page).toHaveURL('/history');
});

test('a filter that has to be walked is summed up when asked', async ({ page }) => {
  await page.goto('/history?min=0');
  await expect(page.getByTestId('totals')).toHaveCount(0);
  await page.getByRole('link', { name: 'Sum up all entries of this filter' }).click();
  await expect(page).toHaveURL('/history?min=0&sum=1');
  await expect(page.getByTestId('totals')).toBeVisible();
});

test('nothing matches is said, with the way out', async ({ page }) => {
  await page.goto('/history?model=no-such-model');
  await expect(page.getByTestId('nothing-matches')).toBeVisible();
  await page.getByTestId('nothing-matches').getByRole('link', { name: 'Clear filter' }).click();
  await expect(page).toHaveURL('/history');
});

test('what cannot be read is named, linked and kept', async ({ page }) => {
  const response = await page.goto('/history?min=1e3&from=30.11.2026&tz=Mars%2FOlympus');
  expect(response?.status()).toBe(400);
  const summary = page.getByTestId('summary');
  await expect(summary).toBeFocused();
  await expect(summary.getByRole('link')).toHaveCount(3);
  await summary.getByRole('link', { name: /At least/ }).click();
  await expect(page.getByLabel('At least')).toBeFocused();
  await expect(page.getByLabel('At least')).toHaveValue('1e3');
  await expect(page.getByLabel('From')).toHaveValue('30.11.2026');
});

test('times follow the zone of the URL and name it', async ({ page }) => {
  await page.goto('/history');
  await page.getByRole('navigation', { name: 'Time zone' }).getByRole('link', { name: 'UTC' }).click();
  await expect(page).toHaveURL('/history?tz=utc');
  await expect(rows(page).first().locator('time')).toContainText('UTC');
  await page.goto('/history?tz=Asia%2FKolkata');
  await expect(rows(page).first().locator('time')).toContainText('IST');
});

test('an entry opens with its lines', async ({ page }) => {
  await page.goto('/history?kind=CONSUME');
  await rows(page).first().locator('td:nth-child(2) a').click();
  await expect(page.getByRole('heading', { level: 1 })).toContainText('Charge');
  const lines = page.getByRole('table', { name: /Lines/ });
  await expect(lines.getByRole('cell', { name: 'revenue' })).toBeVisible();
  await expect(lines.getByRole('cell', { name: 'debit' }).first()).toBeVisible();
  await page.getByRole('main').getByRole('link', { name: 'History', exact: true }).click();
  await expect(page).toHaveURL('/history');
});

test('unknown addresses and other people’s accounts are not found', async ({ page }) => {
  for (const path of ['/no-such-page', '/history/999999999', '/history/x', '/history?account=0190a000-0000-7000-8000-000000000000']) {
    const response = await page.goto(path);
    expect(response?.status(), path).toBe(404);
    await expect(page.getByRole('heading', { level: 1, name: 'Page not found' })).toBeVisible();
  }
});
