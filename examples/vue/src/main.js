import { createApp } from 'vue';
import Chat from './Chat.vue';

createApp(Chat).mount('#app');
