import express, { Router } from 'express';
import { absolutePath } from 'swagger-ui-dist';

/** Everything comes from this process: the reference works without a network, and no other page may frame or script it. */
const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "form-action 'none'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ');

const assets = ['swagger-ui.css', 'swagger-ui-bundle.js', 'favicon-32x32.png'];

const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Purser API reference</title>
<link rel="icon" type="image/png" href="/docs/favicon-32x32.png">
<link rel="stylesheet" href="/docs/swagger-ui.css">
</head>
<body>
<div id="reference"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
`;

/** Validation by a third party's server is off: the reference is for people without a network too. */
const start = `SwaggerUIBundle({
  url: '/openapi.json',
  dom_id: '#reference',
  deepLinking: true,
  validatorUrl: null,
  displayRequestDuration: true,
  defaultModelsExpandDepth: 0,
});
`;

/** `/openapi.json` and, for people, `/docs`. */
export function createDocsRouter({ document }: { document: object }): Router {
  const router = Router();
  router.get('/openapi.json', (_request, response) => {
    response.json(document);
  });
  router.get('/docs', (_request, response) => {
    response.setHeader('Content-Security-Policy', contentSecurityPolicy);
    response.type('html').send(page);
  });
  router.get('/docs/start.js', (_request, response) => {
    response.type('js').send(start);
  });
  const files = express.static(absolutePath(), { index: false, maxAge: '1h' });
  for (const asset of assets) {
    router.get(`/docs/${asset}`, (request, response, next) => {
      request.url = `/${asset}`;
      files(request, response, next);
    });
  }
  return router;
}
