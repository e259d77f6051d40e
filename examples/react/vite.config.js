import react from '@vitejs/plugin-react';
import { relayProxy } from 'seseragi/vite';
import { defineConfig } from 'vite';

export default defineConfig({ plugins: [react()], server: { proxy: relayProxy() } });
