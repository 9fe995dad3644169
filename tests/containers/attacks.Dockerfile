# The image as it ships, with the attacks in it and what runs them. Built in tests/, which is what it needs of the tree.
FROM tracehouse

USER root
# The image has no pip of its own; the one of the Python below it installs.
RUN PATH=/usr/local/bin:/usr/bin:/bin python -m pip --python /opt/tracehouse/bin/python install --no-cache-dir 'pytest>=8.3' 'anyio' 'hypothesis>=6.120'
COPY conftest.py s3_server.py /attacks/tests/
COPY service/sandbox /attacks/tests/service/sandbox
RUN chmod -R a+rX /attacks

USER tracehouse
WORKDIR /attacks
CMD ["python", "-m", "pytest", "-q", "--import-mode=importlib", "-p", "no:cacheprovider", \
    "tests/service/sandbox/test_attacks.py", "tests/service/sandbox/test_tiers.py", "tests/service/sandbox/test_choice.py"]
