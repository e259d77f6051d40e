import vue from '@vitejs/plugin-vue';
import { relayProxy } from 'seseragi/vite';
import { defineConfig } from 'vite';

export default defineConfig({ plugins: [vue()], server: { proxy: relayProxy() } });
