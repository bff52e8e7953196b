#!/bin/sh
# In place of NVIDIA's hook, by which Docker knows that `--gpus` can be served: there is no GPU to
# bring into the container.
exit 0
