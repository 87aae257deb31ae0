// Signing in and out. Wrong attempts use an address that nobody has, so that no demo login is slowed down.
import { expect, login, test } from '../fixtures/test';
import { expectAccessible } from '../fixtures/axe';

test('a page for people who are signed in leads to the form and back', async ({ page }) => {
  await page.goto('/history?kind=CONSUME');
  await expect(page).toHaveURL('/login?next=%2Fhistory%3Fkind%3DCONSUME');
  const { email, password } = login('customer');
  await page.getByLabel('E-mail address').fill(email);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await expect(page).toHaveURL('/history?kind=CONSUME');
  await expect(page.getByText(email)).toBeVisible();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await expect(page).toHaveURL('/login');
  await page.goto('/history');
  await expect(page).toHaveURL(/\/login/);
});

test('a wrong password says so, keeps the address and never the password', async ({ page }) => {
  await page.goto('/login?next=%2Fhistory');
  await page.getByLabel('E-mail address').fill('nobody@example.org');
  await page.getByLabel('Password').fill('not the password');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await expect(page).toHaveURL('/login?next=%2Fhistory');
  const summary = page.getByTestId('summary');
  await expect(summary).toContainText('The e-mail address or the password is not right.');
  await expect(summary).toBeFocused();
  await expect(page).toHaveTitle(/^Error: Sign in/);
  await expect(page.getByLabel('E-mail address')).toHaveValue('nobody@example.org');
  await expect(page.getByLabel('Password')).toHaveValue('');
  expect(await page.content()).not.toContain('not the password');
  await expectAccessible(page);
  await page.reload();
  await expect(summary).toHaveCount(0);
});

test('empty fields are named and linked', async ({ page }) => {
  await page.goto('/login');
  await page.getByRole('button', { name: 'Sign in' }).click();
  const summary = page.getByTestId('summary');
  await summary.getByRole('link', { name: 'Enter your password' }).click();
  await expect(page.getByLabel('Password')).toBeFocused();
  await expect(page.getByLabel('Password')).toHaveAttribute('aria-invalid', 'true');
  await expect(page.getByLabel('Password')).toHaveAccessibleDescription('Enter your password');
});

for (const next of ['//evil.example/', 'https://evil.example/', '/\\evil.example']) {
  test(`a link cannot lead on to another site: ${next}`, async ({ page }) => {
    await page.goto(`/login?next=${encodeURIComponent(next)}`);
    await expect(page.locator('input[name="next"]')).toHaveValue('/');
  });
}

test('a crafted link cannot put an error on the form', async ({ page }) => {
  await page.goto('/login?__path=%2Fapi%2Fsign_in&__err=InNpZ25faW5fcmVmdXNlZCI%3D');
  await expect(page.getByTestId('summary')).toHaveCount(0);
});
