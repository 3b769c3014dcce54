// Verifies deliveries with the reference library of Standard Webhooks. The argument: [{secret, headers, payload}]. Prints, for each of them, the
// verified payload or the library's error.
import { createRequire } from "node:module";

const require = createRequire(`${process.env.CLIENT_FOLDER}/package.json`);
const { Webhook } = require("standardwebhooks");

const results = JSON.parse(process.argv[2]).map(({ secret, headers, payload }) => {
  try {
    return { verified: new Webhook(secret).verify(payload, headers) };
  } catch (error) {
    return { error: String(error) };
  }
});
console.log(JSON.stringify(results));
