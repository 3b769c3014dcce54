# A server over stdio that has the newest revision only: it refuses the handshake, and ends. Otherwise it passes all on to modern.py, which is
# beside it. The first method that it was called with is in the file $LEDGER, a line for each start.
import itertools
import json
import os
import subprocess
import sys

first = sys.stdin.buffer.readline()
request = json.loads(first)
with open(os.environ["LEDGER"], "a") as ledger:
    ledger.write(f"{request['method']}\n")
if request["method"] == "initialize":
    error = {"code": -32601, "message": "Method not found"}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}), flush=True)
    sys.exit(1)

modern = os.path.join(os.path.dirname(os.path.abspath(__file__)), "modern.py")
server = subprocess.Popen([sys.executable, modern, "0", "stdio"], stdin=subprocess.PIPE)
for line in itertools.chain([first], sys.stdin.buffer):
    server.stdin.write(line)
    server.stdin.flush()
server.stdin.close()
sys.exit(server.wait())
