import os

os.closerange(3, 1000)
os._exit(0)
