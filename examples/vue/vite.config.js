import vue from '@vitejs/plugin-vue';
import { defineConfig } from 'vite';

const relay = {
  target: process.env.RELAY_URL ?? 'http://127.0.0.1:8000',
  configure(proxy) { // a connection that broke behind Vite's proxy would stay open before it
    proxy.on('proxyRes', (reply, _, answer) => reply.on('close', () => reply.complete || answer.destroy()));
  },
};

export default defineConfig({ plugins: [vue()], server: { proxy: { '/v1': relay } } });
