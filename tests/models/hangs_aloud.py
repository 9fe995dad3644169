import time

print("here")
time.sleep(3600)
