import threading
import time

threading.stack_size(64 * 1024)
for _ in range(300):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
time.sleep(60)
