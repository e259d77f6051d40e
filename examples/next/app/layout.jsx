export const metadata = { title: 'Seseragi with Next.js' };

export default function Layout({ children }) {
  return <html lang="en"><body>{children}</body></html>;
}
