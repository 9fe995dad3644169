import os

os.closerange(3, 64)
os._exit(0)
