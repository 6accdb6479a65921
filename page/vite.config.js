import { defineConfig } from "vite";

// Addresses are relative, so that the page works below any path of a proxy. Nothing becomes a data: address, which the
// page's own policy forbids.
export default defineConfig({
  base: "./",
  build: {
    outDir: "../runtime/flamestream/ui/static",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: false,
    target: "es2022",
    rollupOptions: {
      output: { entryFileNames: "assets/page.js", assetFileNames: "assets/[name][extname]", chunkFileNames: "assets/[name].js" },
    },
  },
});
