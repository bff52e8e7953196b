#!/bin/sh
# What a made-up box has for an nvidia-smi. The server sets what it has and what is in use.
case "$*" in
  *--query-compute-apps*) [ -z "$GPUS_BOX_USED" ] || echo "$GPUS_BOX_USED" | tr ' ' '\n' ;;
  *--query-gpu=index,uuid*)
    index=0
    for card in $GPUS_BOX_CARDS; do
      echo "$index, $card, $GPUS_BOX_MIB, 570.00, $GPUS_BOX_PRODUCT"
      index=$((index + 1))
    done
    ;;
  *) exit 9 ;;
esac
