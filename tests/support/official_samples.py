# ruff: noqa: E501 -- the lines of the files are as long as they are
"""Published result files of the challenges' baselines, or parts of them."""

from __future__ import annotations

#: 2024, B2 (McAdams): result_for_rank_mcadams, complete.
RANK_2024 = """\
---- Time: 29-03-24_10:45 ----

---- SER results ----
   dataset split       ser      UAR  ACC_sad  ACC_neu  ACC_ang  ACC_hap
                               mean     mean     mean     mean     mean
0  IEMOCAP   dev      anon  55.6146  32.9580  57.9720  64.4438  67.0860
1  IEMOCAP   dev  original  69.0796  63.6292  65.9652  79.7770  66.9476
2  IEMOCAP  test      anon  53.4914  32.7760  66.2338  56.9720  57.9826
3  IEMOCAP  test  original  71.0618  72.5706  71.6618  72.8246  67.1912

---- ASV_eval results ----
  dataset split gender enrollment     trial     EER
0   libri   dev      f   original  original  10.511
3   libri   dev      m   original  original   0.931
6   libri  test      f   original  original   8.761
9   libri  test      m   original  original   0.418

---- ASR results ----
  dataset split       asr     WER
0   libri   dev  original   1.807
4   libri   dev      anon  10.442
1   libri  test  original   1.844
5   libri  test      anon   9.954

---- Time: 28-03-24_21:23 ----

---- ASV_eval^anon results ----
   dataset split gender enrollment trial     EER
2    libri   dev      f       anon  anon  12.910
5    libri   dev      m       anon  anon   2.045
8    libri  test      f       anon  anon   7.483
11   libri  test      m       anon  anon   1.557
"""

#: 2024, B2: EERs in percent of all conditions (libri dev f, dev m, test f, test m; oo oa aa), by ASV_eval.
ASV_CSV_2024 = """\
,dataset,split,gender,enrollment,trial,EER
0,libri,dev,f,original,original,10.511
1,libri,dev,f,original,anon,37.087
2,libri,dev,f,anon,anon,35.939
3,libri,dev,m,original,original,0.931
4,libri,dev,m,original,anon,23.925
5,libri,dev,m,anon,anon,26.862
6,libri,test,f,original,original,8.761
7,libri,test,f,original,anon,33.21
8,libri,test,f,anon,anon,32.118
9,libri,test,m,original,original,0.418
10,libri,test,m,original,anon,28.508
11,libri,test,m,anon,anon,26.988
"""

ASR_CSV_2024 = """\
,dataset,split,asr,WER
0,libri,dev,original,1.79
1,libri,test,original,1.839
2,IEMOCAP,dev,original,23.659
3,IEMOCAP,test,original,25.386
4,libri,dev,anon,10.655
5,libri,test,anon,10.381
6,IEMOCAP,dev,anon,53.304
7,IEMOCAP,test,anon,53.937
"""

SER_CSV_2024 = """\
,dataset,split,ser,UAR,ACC_sad,ACC_ang,ACC_hap,ACC_neu
,,,,mean,mean,mean,mean,mean
0,IEMOCAP,dev,anon,55.6146,32.958,64.4438,67.086,57.972
1,IEMOCAP,dev,original,69.0796,63.6292,79.777,66.9476,65.9652
2,IEMOCAP,test,anon,53.4914,32.776,56.972,57.9826,66.2338
3,IEMOCAP,test,original,71.0618,72.5706,72.8246,67.1912,71.6618
"""

#: Not published: five folds with the mean of the UAR above, one without sad utterances.
FOLDS_CSV_2024 = """\
,dataset,split,fold,ser,UAR,ACC_sad,ACC_ang
0,IEMOCAP,dev,1,original,64.499,60.0,70.25
1,IEMOCAP,dev,2,original,74.868,,80.125
2,IEMOCAP,dev,3,original,70.031,50.5,75.0
3,IEMOCAP,dev,4,original,66.0,61.0,65.5
4,IEMOCAP,dev,5,original,70.0,70.5,90.0
5,IEMOCAP,dev,1,anon,38.548,10.0,30.0
"""

#: 2022, B2: RESULTS_summary_mcadams, the test sets with their averages.
SUMMARY_2022 = """\
ASV-libri_test_enrolls-libri_test_trials_f  EER: 7.664%
ASV-libri_test_enrolls-libri_test_trials_m  EER: 1.114%
ASV-vctk_test_enrolls-vctk_test_trials_f  EER: 4.887%
ASV-vctk_test_enrolls-vctk_test_trials_m  EER: 2.067%
ASV-vctk_test_enrolls-vctk_test_trials_f_common  EER: 2.89%
ASV-vctk_test_enrolls-vctk_test_trials_m_common  EER: 1.13%
ASV-libri_test_enrolls_anon-libri_test_trials_f_anon  EER: 7.117%
ASV-libri_test_enrolls_anon-libri_test_trials_m_anon  EER: 1.114%
ASV-vctk_test_enrolls_anon-vctk_test_trials_f_anon  EER: 16.92%
ASV-vctk_test_enrolls_anon-vctk_test_trials_f_common_anon  EER: 10.98%
ASV-vctk_test_enrolls_anon-vctk_test_trials_m_anon  EER: 7.692%
ASV-vctk_test_enrolls_anon-vctk_test_trials_m_common_anon  EER: 4.802%
ASR-libri_test_asr  %WER 4.15 [ 1453 / 35042, 174 ins, 157 del, 1122 sub ] exp/models/asr_eval/decode_libri_test_asr_tglarge/wer_12_1.0
ASR-vctk_test_asr  %WER 12.82 [ 11104 / 86642, 1300 ins, 1472 del, 8332 sub ] exp/models/asr_eval/decode_vctk_test_asr_tglarge/wer_14_0.0
ASR-libri_test_asr_anon  %WER 4.58 [ 1606 / 35042, 212 ins, 147 del, 1247 sub ] exp/models/user_asr_eval_anon/decode_libri_test_asr_anon_tglarge/wer_12_0.5
ASR-vctk_test_asr_anon  %WER 13.48 [ 11678 / 86642, 1368 ins, 1486 del, 8824 sub ] exp/models/user_asr_eval_anon/decode_vctk_test_asr_anon_tglarge/wer_13_0.0
libri_test_trials_f  Pitch_correlation: mean=0.6089 std=0.1574
libri_test_trials_m  Pitch_correlation: mean=0.5419 std=0.1811
vctk_test_trials_f  Pitch_correlation: mean=0.6836 std=0.1469
vctk_test_trials_m  Pitch_correlation: mean=0.6637 std=0.1751
vctk_test_trials_f_common  Pitch_correlation: mean=0.6511 std=0.1300
vctk_test_trials_m_common  Pitch_correlation: mean=0.6140 std=0.1691
libri_test_trials_f  Gain of voice distinctiveness : -1.7054074286432193
libri_test_trials_m  Gain of voice distinctiveness : -1.7374127228641643
vctk_test_trials_f  Gain of voice distinctiveness : -1.562397882310541
vctk_test_trials_m  Gain of voice distinctiveness : -1.5615648713693606
vctk_test_trials_f_common  Gain of voice distinctiveness : -1.5905810649339058
vctk_test_trials_m_common  Gain of voice distinctiveness : -1.3635334649585955
Weighted average EER test orig: 3.786
Weighted average EER test anon: 7.769
Average WER test orig: 8.485
Average WER test anon: 9.030
Weighted average pitch correlation test: 0.620
Weighted average gain of voice distinctiveness test: -1.633
"""

#: 2022: blocks of results.anon_mcadams, and ZEBRA lines of results.anon_tts_pytorch.
RESULTS_2022 = """\
ASV-libri_dev_enrolls-libri_dev_trials_f
  EER: 14.91%
  Cllr (min/act): 0.466/12.520
  ROCCH-EER: 14.793%
  linkability: 0.661233
  Population: 0.375 bit
  Individual: 3.452 (C)
ASV-libri_dev_enrolls-libri_dev_trials_f_anon
  EER: 50%
  Cllr (min/act): 0.509/39.294
  ROCCH-EER: 16.761%
  linkability: 0.625003
  Population: 0 bit
  Individual: 2e-04 (A)
ASV-libri_dev_enrolls_anon-libri_dev_trials_f_anon
  EER: 11.36%
  Cllr (min/act): 0.368/28.863
  ROCCH-EER: 11.026%
  linkability: 0.741828
  Population: 5e-04 bit
  Individual: 3.799 (C)
ASR-libri_dev_asr
  %WER 5.86 [ 2333 / 39783, 221 ins, 253 del, 1859 sub ] exp/models/user_asr_eval_anon/decode_libri_dev_asr_tgsmall/wer_12_0.0
  %WER 4.19 [ 1666 / 39783, 214 ins, 134 del, 1318 sub ] exp/models/user_asr_eval_anon/decode_libri_dev_asr_tglarge/wer_11_0.0
libri_dev_trials_f  Pitch_correlation: mean=0.6374 std=0.1711
libri_dev_trials_f
  De-Identification : 0.7805323634528221
  Gain of voice distinctiveness : -1.939460000444101
"""

#: 2020: blocks of RESULTS_baseline.
RESULTS_2020 = """\
ASV-vctk_test_enrolls-vctk_test_trials_f_common
  EER: 2.89%
  Cllr (min/act): 0.091/0.866
  ROCCH-EER: 2.749%
ASV-vctk_test_enrolls_anon-vctk_test_trials_m_common_anon
  EER: 31.07%
  Cllr (min/act): 0.835/21.680
  ROCCH-EER: 30.794%
ASR-libri_dev_asr_anon
  %WER 8.76 [ 3485 / 39783, 277 ins, 484 del, 2724 sub ] exp/models/asr_eval/decode_libri_dev_asr_anon_tgsmall/wer_14_0.0
  %WER 6.39 [ 2543 / 39783, 270 ins, 284 del, 1989 sub ] exp/models/asr_eval/decode_libri_dev_asr_anon_tglarge/wer_14_0.0
"""

#: What each sample is called where it is published.
SAMPLES = {
    "result_for_rank_mcadams": RANK_2024,
    "asv.csv": ASV_CSV_2024,
    "asr.csv": ASR_CSV_2024,
    "ser.csv": SER_CSV_2024,
    "ser_folds.csv": FOLDS_CSV_2024,
    "RESULTS_summary_mcadams": SUMMARY_2022,
    "results.anon_mcadams": RESULTS_2022,
    "RESULTS_baseline": RESULTS_2020,
}
